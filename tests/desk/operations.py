"""Every operation on one run, what it answers in one short word, and what it has left in the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery_saga.client.handle import RunHandle
from celery_saga.errors import SagaError
from tests.desk.house import TOKENS, app

Operation = Callable[[RunHandle[Any]], Any]

WORDS = {
    "queued": "que",
    "running": "run",
    "waiting": "wai",
    "compensating": "com",
    "suspended": "sus",
    "completed": "COM",
    "failed": "FAI",
    "cancelled": "CAN",
    "compensation_failed": "CFA",
    "ILLEGAL_TRANSITION": "T",
    "SIGNAL_EXPIRED": "exp",
    "SIGNAL_DUPLICATE": "dup",
    "RUN_EXISTS": "xst",
    "INVALID_TOKEN": "tok",
    "INVALID_ARGUMENT": "inv",
    "delivered": "dlv",
    "kept": "kpt",
}
"""Statuses after it was done, live ones in small letters; codes of errors; answers."""


def _undone_step(handle: RunHandle[Any]) -> str:
    return "charge" if any(step.maybe for step in handle.steps()) else "reserve"


def _skipped_step(handle: RunHandle[Any]) -> str:
    run = app.saga.engine.run_of(handle.id)
    open_ones = [s.key for s in handle.steps() if not s.status.is_end and s.kind.value != "undo"]
    return run.error_step or (open_ones[0] if open_ones else "reserve")


def _start(how: str) -> Operation:
    def start(handle: RunHandle[Any]) -> RunHandle[Any]:
        run = app.saga.engine.run_of(handle.id)
        definition = app.saga.registry.get(run.saga, run.version)
        assert definition is not None
        again = definition.options(if_exists=how).start(*json.loads(run.input_text or "{}").values())
        assert (again.id, again.created) == (handle.id, False)
        return again

    return start


# -- add a verb here, its column to the table of test_every_status.py, and if it is one for many runs a line below ---
OPERATIONS: dict[str, Operation] = {
    "cancel": lambda h: h.cancel(by="ann", reason="r"),
    "drop": lambda h: h.cancel(compensate=False, by="ann", reason="r"),
    "park": lambda h: h.suspend(by="ann", reason="r"),
    "resume": lambda h: h.resume(by="ann", reason="r"),
    "comp": lambda h: h.compensate(by="ann", reason="r"),
    "retry": lambda h: h.retry(by="ann", reason="r"),
    "from": lambda h: h.retry(from_step="reserve", by="ann", reason="r"),
    "skip": lambda h: h.skip(_skipped_step(h), by="ann", reason="r"),
    "undo": lambda h: h.retry_undo(_undone_step(h), by="ann", reason="r"),
    "args": lambda h: h.retry_undo(_undone_step(h), args=["r-2"], by="ann", reason="r"),
    "done": lambda h: h.resolve_undo(_undone_step(h), outcome="done", by="ann", reason="r"),
    "left": lambda h: h.resolve_undo(_undone_step(h), outcome="skipped", by="ann", reason="r"),
    "signal": lambda h: h.signal("approval", id="s1"),
    "same": _start("return"),
    "raise": _start("raise"),
    "again": _start("restart_failed"),
    "redeem": lambda h: app.saga.redeem(TOKENS.get(h.id, "none")),
}
BULK: dict[str, Callable[..., Any]] = {
    "cancel": lambda **o: app.saga.bulk("cancel", by="ann", reason="r", **o),
    "drop": lambda **o: app.saga.bulk("cancel", compensate=False, by="ann", reason="r", **o),
    "park": lambda **o: app.saga.bulk("suspend", by="ann", reason="r", **o),
    "resume": lambda **o: app.saga.bulk("resume", by="ann", reason="r", **o),
    "comp": lambda **o: app.saga.bulk("compensate", by="ann", reason="r", **o),
    "retry": lambda **o: app.saga.bulk("retry", by="ann", reason="r", **o),
    "signal": lambda **o: app.saga.bulk_signal("approval", id="s1", **o),
}
"""The same for all runs of a filter."""
VERBS = {
    "cancel": "cancel",
    "park": "suspend",
    "resume": "resume",
    "comp": "compensate",
    "skip": "skip",
    "undo": "retry_undo",
    "done": "resolve_undo",
}
"""Operations by the names that the desk gives them."""


class Tables:
    """The rows of a laboratory's database: read as they are, and put back."""

    def __init__(self) -> None:
        store = app.saga.store
        self._engine = store.sessions.engine
        self._names = [table.name for table in store.schema.metadata.sorted_tables]

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table, as the driver gives them."""
        with self._engine.connect() as connection:
            return {
                name: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}")]
                for name in self._names
            }

    @contextmanager
    def as_they_are(self) -> Iterator[None]:
        """Put every row back as it was, whatever is done meanwhile."""
        rows = self.rows()
        try:
            yield
        finally:
            with self._engine.begin() as connection:
                for name, held in rows.items():
                    connection.exec_driver_sql(f"DELETE FROM {name}")
                    connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                    if held:
                        marks = ", ".join("?" * len(held[0]))
                        connection.exec_driver_sql(f"INSERT INTO {name} VALUES ({marks})", held)
            assert self.rows() == rows


def word_of(handle: RunHandle[Any], operation: Operation, tables: Tables) -> tuple[str, Any, str]:
    """What it answers: a code or a status in short; `.` where it answered and changed nothing.

    Returns:
        The word, what it returned or the code of its error, and the text of that.
    """
    before = tables.rows()
    try:
        answer = operation(handle)
    except SagaError as error:
        assert tables.rows() == before, f"refused as {error.code}, but rows were written"
        return WORDS.get(error.code, error.code), error.code, str(error)
    if answer in ("kept", "delivered"):
        return WORDS[answer], answer, ""
    if tables.rows() == before:
        return ".", answer, ""
    return WORDS[app.saga.engine.run_of(handle.id).status.value], answer, ""
