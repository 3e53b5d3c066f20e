"""What comes from outside: new runs and signals, as inserts that conflict with nothing and take no lock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, null, select

from celery_saga.core.ports import Arrival
from celery_saga.core.records import RunRecord, SignalRecord
from celery_saga.errors import StoreUnavailable
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.outbox import OutboxRows
from celery_saga.store.rows import RUN_FIELDS, SIGNAL_FIELDS, columns, run_from, signal_from, values_of
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.slots import Slots
from celery_saga.store.tags import Tags

_SIGNAL_COLUMNS = tuple(name for name in SIGNAL_FIELDS if name != "id")


class Arrivals:
    """Statements that also run on a caller's connection, inside the caller's transaction."""

    def __init__(self, schema: Schema, clock: Clock, database: Database, outbox: OutboxRows, slots: Slots) -> None:
        self._database, self._clock, self._outbox, self._slots = database, clock, outbox, slots
        self._tags = Tags(schema, database)
        saga = bindparam("saga", type_=schema.run.c.saga.type)
        self._arrival = select(clock.now, slots.is_held_back(saga, null()))
        run, signal = schema.run, schema.signal
        self._insert_run = database.insert_unless_there(run)
        by_id = run.c.id == bindparam("run_id")
        self._run = select(*columns(run, RUN_FIELDS)).where(by_id)
        # Under a caller's repeatable read a plain read does not show the row that the insert met.
        self._latest_run = self._run.with_for_update(read=True)
        self._insert_signal = database.insert_unless_there(signal)
        self._signal = select(*columns(signal, SIGNAL_FIELDS)).where(
            signal.c.run_id == bindparam("run_id"),
            signal.c.name == bindparam("name"),
            signal.c.signal_id == bindparam("signal_id"),
        )
        self._latest_signal = self._signal.with_for_update(read=True)

    def arrival(self, tx: Tx, saga: str) -> Arrival:
        """The time, and whether a new run of this saga has to queue whatever its lane."""
        now, is_held_back = tx.run("read clock", self._arrival, {"saga": saga} | self._clock.binds()).one()
        return Arrival(now, bool(is_held_back))

    def insert_run(
        self, tx: Tx, run: RunRecord, look_at: datetime | None = None, since: datetime | None = None
    ) -> tuple[RunRecord, bool]:
        """The new run, queueing where it asks before it begins, and True; or the one that has its id and False.

        Args:
            since: it may have been written already, then or later, without our learning it; None: it was not.
        """
        if self._database.landed(tx.run("insert run", self._insert_run, values_of(run, RUN_FIELDS))):
            self._outbox.started(tx, (run,))
            self._slots.start(tx, [run], look_at or run.created_at)
            self._tags.insert(tx, [run])
            return run, True
        stored = run_from(self._there(tx, "load run", self._run, self._latest_run, {"run_id": run.id}))
        # An insert whose answer was lost: what is stored is what we sent, or has moved on from it.
        ours = tx.again and stored.created_at == run.created_at
        ours = ours or (since is not None and since <= stored.created_at and stored.input_digest == run.input_digest)
        ours = ours and stored.headers_text == run.headers_text
        return stored, ours

    def put_signal(self, tx: Tx, signal: SignalRecord) -> tuple[SignalRecord, bool]:
        """The signal as stored, and whether this call stored it."""
        values = values_of(signal, _SIGNAL_COLUMNS)
        landed = self._database.landed(tx.run("insert signal", self._insert_signal, values))
        wanted = {"run_id": signal.run_id, "name": signal.name, "signal_id": signal.signal_id}
        stored = signal_from(self._there(tx, "load signal", self._signal, self._latest_signal, wanted))
        ours = tx.again and stored.received_at == signal.received_at and stored.value_text == signal.value_text
        return stored, landed or ours

    def _there(self, tx: Tx, label: str, plain: Any, latest: Any, wanted: dict[str, Any]) -> Any:
        row = tx.run(label, plain, wanted).one_or_none()
        if row is None:
            row = tx.run(label, latest, wanted).one_or_none()
        if row is None:
            raise StoreUnavailable(f"{label}: {wanted!r} was deleted while it was asked for; nothing was written")
        return row
