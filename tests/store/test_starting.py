"""Starts that are one statement each, on PostgreSQL: what they write, and when they are done in the usual way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.exc import DBAPIError

from celery_saga.core.admission import LaneSpec, saga_name
from celery_saga.core.ports import Arrival
from celery_saga.core.records import RunRecord
from celery_saga.core.status import Admission, RunStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import a_run, new_id

RESEND = timedelta(seconds=30)


def making(**fields: Any) -> Callable[[Arrival], RunRecord]:
    """A new run, counted from its arrival."""

    def make(arrival: Arrival) -> RunRecord:
        now = arrival.now
        asks = {"admission": Admission.ASKED, "asks": 1} if arrival.is_held_back else {}
        times = {"created_at": now, "updated_at": now, "sent_at": now, "wake_at": now + RESEND}
        return a_run(**{"id": fields.get("id") or new_id(), "status": RunStatus.QUEUED, **times, **asks, **fields})

    return make


def start(store: SqlStore, *, eta: datetime | None = None, **fields: Any) -> tuple[RunRecord, bool, list[str]]:
    """The run, whether it is new, and the labels of its statements."""
    labels: list[str] = []
    store.trace = lambda label: labels.append(label.removeprefix("before:")) if label[0] == "b" else None
    run, created = store.start_run(fields.get("saga", "checkout"), making(**fields), eta=eta, look_s=30.0)
    store.trace = None
    return run, created, labels


def stored(store: SqlStore, run_id: str) -> RunRecord:
    loaded = store.load(run_id)
    assert loaded is not None
    return loaded.snapshot.run


def test_a_start_is_one_statement_and_answers_what_is_stored(store: SqlStore) -> None:
    before = store.now()

    run, created, labels = start(store, input_text='{"a": 1}', deadline_at=None, priority=3, key="k1")

    assert labels == ["start at once"]
    assert created
    assert run == stored(store, run.id)
    assert before <= run.created_at <= store.now()
    assert run.wake_at == run.created_at + RESEND
    assert type(run.wake_at) is datetime


def test_a_taken_id_gives_the_run_that_has_it(store: SqlStore) -> None:
    first, _, _ = start(store, input_text='{"a": 1}')

    second, created, _ = start(store, id=first.id, input_text='{"a": 2}')

    assert not created
    assert second == first


def test_a_saga_that_is_held_back_queues(store: SqlStore) -> None:
    store.sync_lanes({saga_name("capped"): LaneSpec(cap=1)}, look_s=0.0)

    run, created, _ = start(store, saga="capped")

    assert created
    assert stored(store, run.id).admission == Admission.ASKED
    assert store.slots_of(run.id)


def test_a_run_with_tags_is_found_by_them(store: SqlStore) -> None:
    run, _, labels = start(store, tags_text='["vip"]')

    assert "start at once" not in labels
    assert stored(store, run.id).tags_text == '["vip"]'


def test_what_a_caller_has_timed_is_compared_with_the_databases_time(store: SqlStore) -> None:
    _, _, labels = start(store, eta=store.now())

    assert labels[0] == "read clock"


def test_a_start_whose_answer_is_lost_counts_as_new(store: SqlStore) -> None:
    run_id = new_id()

    def lose(label: str) -> None:
        if label == "after:start at once":
            store.trace = None
            raise _lost(store)

    store.trace = lose
    run, created = store.start_run("checkout", making(id=run_id), eta=None, look_s=30.0)

    assert created
    assert run == stored(store, run_id)
    assert start(store, id=run_id)[1] is False


def test_a_start_that_was_there_before_is_not_new_because_an_answer_is_lost(store: SqlStore) -> None:
    first, _, _ = start(store)

    def lose(label: str) -> None:
        if label == "after:start at once":
            store.trace = None
            raise _lost(store)

    store.trace = lose
    run, created = store.start_run("checkout", making(id=first.id), eta=None, look_s=30.0)

    assert not created
    assert run == first


def _lost(store: SqlStore) -> Exception:
    """The driver's own error of a connection that the server has ended."""
    lent = store.sessions.engine.raw_connection()
    driver: Any = lent.dbapi_connection
    module: Any = store.sessions.engine.dialect.loaded_dbapi
    driver.close()
    try:
        driver.cursor().execute("SELECT 1")
    except module.Error as error:
        return DBAPIError.instance("", None, error, module.Error, connection_invalidated=True)
    finally:
        lent.invalidate()
    raise AssertionError("a closed connection still answers")
