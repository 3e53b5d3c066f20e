"""Schedules and the log of their fires: a row for each schedule, locked by whatever changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, exists, insert, select, update

from celery_saga.core.ports import ChangeSchedule
from celery_saga.core.schedules import (
    FIRES_KEPT,
    FireOutcome,
    FireRecord,
    PatternKind,
    ScheduleChange,
    ScheduleRecord,
    SkipReason,
)
from celery_saga.core.status import RunStatus
from celery_saga.errors import StoreUnavailable
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.rows import plain
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx

SCHEDULE_FIELDS = tuple(f.name for f in fields(ScheduleRecord))
_FIRE_FIELDS = tuple(f.name for f in fields(FireRecord))
_KIND = SCHEDULE_FIELDS.index("kind")
_OUTCOME, _REASON = _FIRE_FIELDS.index("outcome"), _FIRE_FIELDS.index("reason")
_LIVE = tuple(status.value for status in RunStatus if not status.is_end)


class Schedules:
    """Statements over schedules and their log.

    Lock order: a schedule's row is locked alone; no run is touched while it is held.
    """

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._clock, self._database = clock, database
        row, log, run = schema.schedule, schema.fire, schema.run
        self._now = select(clock.now)
        columns = [row.c[name] for name in SCHEDULE_FIELDS]
        this = (row.c.saga == bindparam("of_saga"), row.c.id == bindparam("of_id"))
        self._one = select(*columns).where(*this)
        self._locked = self._one.with_for_update()
        self._insert = database.insert_unless_there(row)
        values = {name: bindparam(f"new_{name}", type_=row.c[name].type) for name in SCHEDULE_FIELDS[2:]}
        self._update = update(row).where(*this).values(**values)
        self._delete = delete(row).where(*this)
        self._all = select(*columns).order_by(row.c.saga, row.c.id)

        of_this = (log.c.saga == bindparam("of_saga"), log.c.schedule == bindparam("of_id"))
        logged = select(*(log.c[name] for name in _FIRE_FIELDS)).where(*of_this).order_by(log.c.seq.desc())
        self._fires = logged.limit(bindparam("limit"))
        self._insert_fires = insert(log)
        grown = {name: bindparam(f"new_{name}", type_=log.c[name].type) for name in ("until_at", "count", "at")}
        self._grow_fire = update(log).where(*of_this, log.c.seq == bindparam("of_seq")).values(**grown)
        self._forget_fires = delete(log).where(*of_this, log.c.seq <= bindparam("up_to"))
        self._busy = select(exists().where(*of_this, log.c.run_id == run.c.id, run.c.status.in_(_LIVE)).label("busy"))

    def change(self, tx: Tx, saga: str, id_: str, change: ChangeSchedule) -> ScheduleChange:
        """Lock the schedule, apply `change`, write what differs."""
        this = {"of_saga": saga, "of_id": id_}
        there = self._lock(tx, this)
        last = next(iter(self.fires(tx, saga, id_, 1)), None) if there is not None else None
        now: datetime = tx.run("read clock", self._now, self._clock.binds()).scalar_one()
        changed = change(there, last, now)
        new = changed.schedule
        if new is None:
            if there is not None:
                tx.run("forget fires", self._forget_fires, this | {"up_to": there.fire_seq})
                tx.run("delete schedule", self._delete, this)
            return changed
        if there is None:
            if not self._database.landed(tx.run("insert schedule", self._insert, _values(new, SCHEDULE_FIELDS))):
                return self._beside_another(tx, this, change)
        elif new != there:
            values = {f"new_{name}": value for name, value in _values(new, SCHEDULE_FIELDS[2:]).items()}
            tx.run("write schedule", self._update, this | values)
        self._write_fires(tx, this, 0 if there is None else there.fire_seq, new, changed.fires)
        return changed

    def _lock(self, tx: Tx, this: dict[str, str]) -> ScheduleRecord | None:
        row = tx.run("lock schedule", self._locked, this).one_or_none()
        return None if row is None else schedule_from(row)

    def _beside_another(self, tx: Tx, this: dict[str, str], change: ChangeSchedule) -> ScheduleChange:
        """Another has written it first, and has committed: what it wrote can be locked now."""
        if self._lock(tx, this) is None:
            raise StoreUnavailable(f"schedule {this['of_id']!r} of saga {this['of_saga']!r} was removed meanwhile")
        return self.change(tx, this["of_saga"], this["of_id"], change)

    def _write_fires(
        self, tx: Tx, this: dict[str, str], seq: int, new: ScheduleRecord, fires: Sequence[FireRecord]
    ) -> None:
        for fire in fires:
            if fire.seq <= seq:
                grown = {f"new_{name}": getattr(fire, name) for name in ("until_at", "count", "at")}
                tx.run("grow fire", self._grow_fire, this | {"of_seq": fire.seq} | grown)
            else:
                tx.run("insert fire", self._insert_fires, _values(fire, _FIRE_FIELDS))
        if new.fire_seq > seq and new.fire_seq > FIRES_KEPT:
            tx.run("forget fires", self._forget_fires, this | {"up_to": new.fire_seq - FIRES_KEPT})

    def get(self, tx: Tx, saga: str, id_: str) -> ScheduleRecord | None:
        """The schedule; None: there is none."""
        row = tx.run("load schedule", self._one, {"of_saga": saga, "of_id": id_}).one_or_none()
        return None if row is None else schedule_from(row)

    def all(self, tx: Tx) -> list[ScheduleRecord]:
        """Every schedule, by saga and id."""
        return [schedule_from(row) for row in tx.run("list schedules", self._all)]

    def fires(self, tx: Tx, saga: str, id_: str, limit: int) -> list[FireRecord]:
        """The newest rows of its log, newest first."""
        rows = tx.run("load fires", self._fires, {"of_saga": saga, "of_id": id_, "limit": limit})
        return [_fire_from(row) for row in rows]

    def is_busy(self, tx: Tx, saga: str, id_: str) -> bool:
        """Whether a run that it started is live."""
        busy: bool = bool(tx.run("ask for live runs", self._busy, {"of_saga": saga, "of_id": id_}).scalar_one())
        return busy


def schedule_from(row: Sequence[Any]) -> ScheduleRecord:
    """The schedule of a row of `SCHEDULE_FIELDS`."""
    values = list(row)
    values[_KIND] = PatternKind(values[_KIND])
    return ScheduleRecord(*values)


def _fire_from(row: Sequence[Any]) -> FireRecord:
    values = list(row)
    values[_OUTCOME] = FireOutcome(values[_OUTCOME])
    values[_REASON] = None if values[_REASON] is None else SkipReason(values[_REASON])
    return FireRecord(*values)


def _values(record: ScheduleRecord | FireRecord, names: Sequence[str]) -> dict[str, Any]:
    return {name: plain(getattr(record, name)) for name in names}
