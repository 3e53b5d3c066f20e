"""What is due: one cheap look, and where there is something, picks that move its wake-up on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from sqlalchemy import Select, Table, and_, bindparam, case, delete, exists, or_, select, tuple_, update

from celery_saga.core.due import Due, DueKind
from celery_saga.core.lanes import SlotState
from celery_saga.core.records import RunRecord
from celery_saga.core.replacing import replace
from celery_saga.core.status import StepStatus
from celery_saga.store.claims import may_be_woken
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.rows import RUN_FIELDS, SIGNAL_FIELDS, STEP_FIELDS, columns, run_from, signal_from, step_from
from celery_saga.store.schedules import SCHEDULE_FIELDS, schedule_from
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.types import Instant


class DueRows:
    """Statements that find and move what is due."""

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._schema, self._clock, self._database = schema, clock, database
        run, step, signal = schema.run, schema.step, schema.signal
        self._run_is_due = and_(run.c.wake_at <= clock.fixed, may_be_woken(run))
        self._step_is_due = step.c.wake_at <= clock.fixed
        self._signal_is_due = signal.c.wake_at <= clock.fixed
        self._schedule_is_due = schema.schedule.c.wake_at <= clock.fixed
        lane, slot = schema.lane, schema.slot
        self._lane_is_due, self._slot_is_due = lane.c.wake_at <= clock.fixed, slot.c.wake_at <= clock.fixed
        any_lane = or_(exists().where(self._slot_is_due), exists().where(self._lane_is_due))
        self._peek = select(
            exists().where(self._run_is_due).label("run"),
            exists().where(self._step_is_due).label("step"),
            exists().where(self._signal_is_due).label("signal"),
            exists().where(self._schedule_is_due).label("schedule"),
            any_lane.label("lane"),
        )
        self._runs_small = select(*columns(run, RUN_FIELDS, without=frozenset({"input_text"}))).where(
            run.c.id.in_(bindparam("ids", expanding=True))
        )

    def peek(self, tx: Tx) -> frozenset[DueKind]:
        """Of which kinds something is due; one statement."""
        row = tx.run("peek due", self._peek, self._clock.binds()).one()
        return frozenset(kind for kind in DueKind if getattr(row, kind.value))

    def pick(self, tx: Tx, kind: DueKind, *, limit: int, hold_s: float) -> list[Due]:
        """Due rows of one kind, oldest first, with their wake-up moved on by `hold_s`."""
        by_kind: dict[DueKind, Callable[[Tx, int, float], list[Due]]] = {
            DueKind.RUN: self._pick_runs,
            DueKind.STEP: self._pick_steps,
            DueKind.SIGNAL: self._pick_signals,
            DueKind.SCHEDULE: self._pick_schedules,
            DueKind.LANE: self._pick_lanes,
        }
        return by_kind[kind](tx, limit, hold_s)

    # -- runs ------------------------------------------------------------------------------------------------
    @cached_property
    def _due_runs(self) -> Select[Any]:
        run = self._schema.run
        names = columns(run, RUN_FIELDS, without=frozenset({"input_text"}))
        return self._picking(run, select(self._clock.now.label("now"), *names).where(self._run_is_due))

    @cached_property
    def _hold_runs(self) -> Any:
        run = self._schema.run
        return (
            update(run)
            .where(run.c.id.in_(bindparam("ids", expanding=True)))
            .values(wake_at=_until(), sends=run.c.sends + 1, sent_at=_now())
        )

    def _pick_runs(self, tx: Tx, limit: int, hold_s: float) -> list[Due]:
        rows = tx.run("pick runs", self._due_runs, {"limit": limit} | self._clock.binds()).all()
        if not rows:
            return []
        until = rows[0][0] + timedelta(seconds=hold_s)
        runs = [_sent(run_from(row[1:]), until, rows[0][0]) for row in rows]
        ids = {"ids": [run.id for run in runs]}
        tx.run("hold runs", self._hold_runs, ids | {"until": until, "at": rows[0][0]})
        return [Due(DueKind.RUN, run.id, run=run) for run in runs]

    # -- steps -----------------------------------------------------------------------------------------------
    @cached_property
    def _due_steps(self) -> Select[Any]:
        step = self._schema.step
        names = columns(step, STEP_FIELDS)
        return self._picking(step, select(self._clock.now.label("now"), *names).where(self._step_is_due))

    @cached_property
    def _hold_steps(self) -> Any:
        step = self._schema.step
        running = step.c.status == StepStatus.RUNNING.value
        sends = case((running, step.c.sends), else_=step.c.sends + 1)
        sent_at = case((running, step.c.sent_at), else_=_now())
        return self._among_steps(update(step).values(wake_at=_until(), sends=sends, sent_at=sent_at))

    @cached_property
    def _forget_steps(self) -> Any:
        return self._among_steps(update(self._schema.step).values(wake_at=None))

    def _among_steps(self, statement: Any) -> Any:
        step = self._schema.step
        ids = tuple_(step.c.run_id, step.c.generation, step.c.key)
        return statement.where(ids.in_(bindparam("ids", expanding=True)))

    def _pick_steps(self, tx: Tx, limit: int, hold_s: float) -> list[Due]:
        rows = tx.run("pick steps", self._due_steps, {"limit": limit} | self._clock.binds()).all()
        if not rows:
            return []
        until = rows[0][0] + timedelta(seconds=hold_s)
        found = [step_from(row[1:]) for row in rows]
        runs = self._runs(tx, (step.run_id for step in found))
        # What a run's later generation left behind has nobody to wake.
        live = [s for s in found if s.run_id in runs and runs[s.run_id].generation == s.generation]
        if dead := [(s.run_id, s.generation, s.key) for s in found if s not in live]:
            tx.run("forget steps", self._forget_steps, {"ids": dead})
        if live:
            ids = [(step.run_id, step.generation, step.key) for step in live]
            tx.run("hold steps", self._hold_steps, {"ids": ids, "until": until, "at": rows[0][0]})
        due: list[Due] = []
        for step in live:
            is_sent = step.status is not StepStatus.RUNNING
            held = replace(step, wake_at=until)
            held = replace(held, sends=step.sends + 1, sent_at=rows[0][0]) if is_sent else held
            due.append(Due(DueKind.STEP, step.run_id, step=held, run=runs[step.run_id]))
        return due

    # -- signals ---------------------------------------------------------------------------------------------
    @cached_property
    def _due_signals(self) -> Select[Any]:
        signal = self._schema.signal
        names = columns(signal, SIGNAL_FIELDS)
        return self._picking(signal, select(self._clock.now.label("now"), *names).where(self._signal_is_due))

    @cached_property
    def _hold_signal(self) -> Any:
        signal = self._schema.signal
        return update(signal).where(signal.c.id == bindparam("of_signal")).values(wake_at=_until())

    @cached_property
    def _drop_signals(self) -> Any:
        signal = self._schema.signal
        return delete(signal).where(signal.c.id.in_(bindparam("ids", expanding=True)))

    def _pick_signals(self, tx: Tx, limit: int, hold_s: float) -> list[Due]:
        rows = tx.run("pick signals", self._due_signals, {"limit": limit} | self._clock.binds()).all()
        if not rows:
            return []
        now: datetime = rows[0][0]
        signals = [signal_from(row[1:]) for row in rows]
        runs = self._runs(tx, (signal.run_id for signal in signals))
        # One to a run that was there when it was sent, and is not any more, has nothing to wait for.
        lost = [s for s in signals if s.run_id not in runs and (s.expires_at is None or s.expires_at <= now)]
        expired = [s.id for s in lost]
        if expired:
            tx.run("drop signals", self._drop_signals, {"ids": expired})
        kept = [signal for signal in signals if signal.id not in expired]
        until = now + timedelta(seconds=hold_s)
        for signal in kept:
            # A run that comes later finds it in its own first decision: until it expires there is nothing to do.
            later = until if signal.run_id in runs else signal.expires_at
            tx.run("hold signal", self._hold_signal, {"of_signal": signal.id, "until": later})
        return [Due(DueKind.SIGNAL, signal.run_id, run=runs.get(signal.run_id)) for signal in kept]

    # -- schedules -------------------------------------------------------------------------------------------
    @cached_property
    def _due_schedules(self) -> Select[Any]:
        schedule = self._schema.schedule
        names = columns(schedule, SCHEDULE_FIELDS)
        return self._picking(schedule, select(self._clock.now.label("now"), *names).where(self._schedule_is_due))

    @cached_property
    def _hold_schedules(self) -> Any:
        schedule = self._schema.schedule
        ids = tuple_(schedule.c.saga, schedule.c.id).in_(bindparam("ids", expanding=True))
        return update(schedule).where(ids).values(wake_at=_until())

    def _pick_schedules(self, tx: Tx, limit: int, hold_s: float) -> list[Due]:
        rows = tx.run("pick schedules", self._due_schedules, {"limit": limit} | self._clock.binds()).all()
        if not rows:
            return []
        until = rows[0][0] + timedelta(seconds=hold_s)
        held = [replace(schedule_from(row[1:]), wake_at=until) for row in rows]
        tx.run("hold schedules", self._hold_schedules, {"ids": [(each.saga, each.id) for each in held], "until": until})
        return [Due(DueKind.SCHEDULE, "", schedule=each) for each in held]

    # -- lanes -----------------------------------------------------------------------------------------------
    @cached_property
    def _due_slots(self) -> Select[Any]:
        slot = self._schema.slot
        names = (slot.c.id, slot.c.lane, slot.c.run_id, slot.c.state)
        return self._picking(slot, select(self._clock.now.label("now"), *names).where(self._slot_is_due))

    @cached_property
    def _due_lanes(self) -> Select[Any]:
        lane = self._schema.lane
        names = (lane.c.name, lane.c.enlisting)
        return self._picking(lane, select(self._clock.now.label("now"), *names).where(self._lane_is_due))

    def _pick_lanes(self, tx: Tx, limit: int, hold_s: float) -> list[Due]:
        """Lanes to be looked at, each once, and runs whose slot is granted and who have not gone on."""
        slot, lane = self._schema.slot, self._schema.lane
        slots = tx.run("pick slots", self._due_slots, {"limit": limit} | self._clock.binds()).all()
        lanes = tx.run("pick lanes", self._due_lanes, {"limit": limit} | self._clock.binds()).all()
        for rows, table, column in ((slots, slot, slot.c.id), (lanes, lane, lane.c.name)):
            if rows:
                until = rows[0][0] + timedelta(seconds=hold_s)
                held = update(table).where(column.in_([row[1] for row in rows])).values(wake_at=until)
                tx.run("hold lanes", held)
        enlisting = {row.name: row.enlisting for row in lanes}
        names = {row.lane: False for row in slots if row.state != SlotState.HELD.value} | enlisting
        due = [Due(DueKind.LANE, "", lane=name, is_enlisting=is_so) for name, is_so in names.items()]
        granted = {row.run_id: row.lane for row in slots if row.state == SlotState.HELD.value}
        return due + [Due(DueKind.LANE, run_id, lane=name) for run_id, name in granted.items()]

    # -- common ----------------------------------------------------------------------------------------------
    def _picking(self, table: Table, statement: Select[Any]) -> Select[Any]:
        oldest = statement.order_by(table.c.wake_at).limit(bindparam("limit"))
        return oldest.with_for_update(skip_locked=self._database.skips_locked)

    def _runs(self, tx: Tx, run_ids: Iterable[str]) -> dict[str, RunRecord]:
        ids: Sequence[str] = sorted(set(run_ids))
        rows = tx.run("load runs", self._runs_small, {"ids": ids})
        return {run.id: run for run in map(run_from, rows)}


def _sent(run: RunRecord, until: datetime, now: datetime) -> RunRecord:
    return replace(run, wake_at=until, sends=run.sends + 1, sent_at=now)


def _until() -> Any:
    return bindparam("until", type_=Instant())


def _now() -> Any:
    return bindparam("at", type_=Instant())
