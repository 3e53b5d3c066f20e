"""Admission to one lane: under its lock what was given back is taken, slots are counted, and free ones are granted.

Lock order: one lane, then rows of slots. Runs never wait for a lane: they write their own slots, and lock no other.
Slots that are locked by their runs just now are left out here, and looked at again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, Select, Table, and_, bindparam, delete, false, func, select, true, update
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.admission import LaneSpec
from celery_saga.core.lanes import Admitted, Granted, LaneRecord, SlotState
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.lanes import BEFORE_ALL, NOBODY, OCCUPIED, QUEUED, UNSAID, Lanes, lane_from, later, says_else
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.slots import NEEDLESS, in_turn, rides
from celery_saga.store.types import Instant

_AT_A_TIME = 500
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class _Room:
    """What a lane has free; None: no bound. `tokens_at`: when the limit leaves room again."""

    now: datetime
    free: int | None
    tokens: int | None
    tokens_at: datetime | None = None

    @property
    def most(self) -> int | None:
        """How many may be let in that take a slot."""
        bounds = [bound for bound in (self.free, self.tokens) if bound is not None]
        return max(0, min(bounds)) if bounds else None


class _Counts:
    """Statements that count what of a lane is taken."""

    def __init__(self, schema: Schema, clock: Clock) -> None:
        self._clock = clock
        slot, grant = schema.slot, schema.grant
        here = slot.c.lane == bindparam("of_lane")
        occupied = and_(here, slot.c.counts == true(), slot.c.state.in_(OCCUPIED))
        kept = and_(here, slot.c.counts == true(), slot.c.kept == true(), slot.c.state.not_in(OCCUPIED))
        pending = and_(here, slot.c.limited == true(), slot.c.state == SlotState.HELD.value)
        of_lane, since = grant.c.lane == bindparam("of_lane"), bindparam("since", type_=Instant())
        # Two, each along an index of its own: the queue may be long.
        self._count = select(clock.now, _number(slot, occupied) + _number(slot, kept))
        self._pending = select(func.count()).select_from(slot).where(pending)
        self._logged = select(func.count(), func.min(grant.c.at)).where(of_lane, grant.c.at > since)
        self._prune = delete(grant).where(of_lane, grant.c.at <= since)

    def room(self, tx: Tx, lane: LaneRecord) -> _Room:
        """What is free, counted exactly: only under this lock is anything granted."""
        of = {"of_lane": lane.name}
        now, used = tx.run("count slots", self._count, of | self._clock.binds()).one()
        free = None if lane.cap is None else lane.cap - used
        if lane.limit is None or lane.window_s is None:
            return _Room(now, free, None)
        since = of | {"since": later(now, -lane.window_s)}
        tx.run("prune grants", self._prune, since)
        # In this order: who is let in between the two is counted twice, and never not at all.
        pending = tx.run("count slots", self._pending, of).scalar_one()
        logged, oldest = tx.run("count grants", self._logged, since).one()
        # One that is granted and not let in yet counts as if it were let in at the latest moment.
        tokens_at = later(now if oldest is None else oldest, lane.window_s)
        return _Room(now, free, lane.limit - logged - pending, tokens_at)


class Admission:
    """Statements that admit, built once."""

    def __init__(self, schema: Schema, clock: Clock, database: Database, lanes: Lanes) -> None:
        self._lanes = lanes
        slot, skip = schema.slot, database.skips_locked
        self._counts = _Counts(schema, clock)
        here = slot.c.lane == bindparam("of_lane")
        queued = slot.c.state.in_(QUEUED)
        ids = slot.c.id.in_(bindparam("ids", expanding=True))
        back = (SlotState.FREED.value, SlotState.GONE.value)
        self._given_back = (
            select(slot.c.id, slot.c.state)
            .where(here, slot.c.state.in_(back))
            .limit(_AT_A_TIME)
            .with_for_update(skip_locked=skip)
        )
        self._forget = delete(slot).where(ids)
        self._take_back = update(slot).where(ids).values(state=SlotState.IDLE.value, wake_at=None)
        self._fresh = (
            select(slot.c.id, slot.c.said_text).where(here, queued, slot.c.wake_at.is_not(None)).limit(_AT_A_TIME)
        )
        self._looked_at = update(slot).where(ids, queued).values(wake_at=None)
        self._said = _said(schema).where(here)
        self._said_now = self._said.where(queued, slot.c.wake_at.is_not(None))
        first = select(slot.c.id, slot.c.run_id, slot.c.ask).order_by(slot.c.turn, slot.c.id).limit(bindparam("most"))
        takes = slot.c.state == SlotState.QUEUED.value
        self._next = first.where(here, takes).with_for_update(skip_locked=skip)
        self._riders = first.where(here, ~takes, queued).with_for_update(skip_locked=skip)
        self._left = select(slot.c.id).where(here, queued).limit(1)
        look_at = bindparam("look_at", type_=Instant())
        self._grant = (
            update(slot)
            .where(ids, queued)
            .values(
                hold=bindparam("new_hold"),
                limited=and_(bindparam("is_limited", type_=Boolean()), rides(slot) == false()),
                state=SlotState.HELD.value,
                wake_at=look_at,
            )
        )
        self._wider = (
            select(slot.c.id, slot.c.run_id, slot.c.lane, slot.c.rank)
            .where(slot.c.run_id.in_(bindparam("runs", expanding=True)), slot.c.state == SlotState.IDLE.value)
            .order_by(slot.c.rank.desc())
        )
        self._queue = (
            update(slot).where(ids, slot.c.state == SlotState.IDLE.value).values(state=in_turn(slot), wake_at=look_at)
        )

    def admit(self, tx: Tx, name: str, *, at_most: int, look_s: float) -> Admitted:
        """See the port."""
        lane = self._locked(tx, name)
        more = self._clean(tx, name)
        fresh = tx.run("find fresh slots", self._fresh, {"of_lane": name}).all()
        if lane.said_at is not None and any(row.said_text and says_else(lane, _spec(row.said_text)) for row in fresh):
            lane = self._said_again(tx, lane)
        room = self._counts.room(tx, lane)
        rows = self._chosen(tx, lane, room, at_most)
        granted = self._granted(tx, lane, rows, later(room.now, look_s))
        if waiting := sorted({row.id for row in fresh} - {row.id for row in rows}):
            tx.run("look at slots", self._looked_at, {"ids": waiting})
        more = more or len(rows) >= at_most
        wake_at = self._wake_at(tx, lane, room, rows, look_s if more else None)
        if wake_at != lane.wake_at:
            self._lanes.write(tx, name, wake_at=wake_at)
        return Admitted(granted, more)

    def _locked(self, tx: Tx, name: str) -> LaneRecord:
        row = tx.run("lock lane", self._lanes.lock, {"of_lane": name}).one_or_none()
        if row is not None and row.source != NOBODY:
            return lane_from(row)
        said = tx.run("read what is said", self._said, {"of_lane": name}).one_or_none()
        if row is not None and said is None:
            return lane_from(row)  # it may still come
        if said is not None:
            return self._lanes.said_by_run(tx, name, _spec(said.said_text), said.created_at)
        unsaid = UNSAID if name.startswith("lane:") else LaneSpec()
        return self._lanes.said_by_run(tx, name, unsaid, BEFORE_ALL)

    def _said_again(self, tx: Tx, lane: LaneRecord) -> LaneRecord:
        """The code of a run that asks now says something else: it counts, unless that of a later run has spoken."""
        said = tx.run("read what is said", self._said_now, {"of_lane": lane.name}).one_or_none()
        if said is None or lane.said_at is None or said.created_at < lane.said_at:
            return lane
        spec = _spec(said.said_text)
        return self._lanes.said_by_run(tx, lane.name, spec, said.created_at) if says_else(lane, spec) else lane

    def _clean(self, tx: Tx, name: str) -> bool:
        """Take back what was given back; whether there may be more of it."""
        rows = tx.run("find given back", self._given_back, {"of_lane": name}).all()
        if gone := [row.id for row in rows if row.state == SlotState.GONE.value]:
            tx.run("forget slots", self._forget, {"ids": gone})
        if idle := [row.id for row in rows if row.state != SlotState.GONE.value]:
            tx.run("take back", self._take_back, {"ids": idle})
        return len(rows) >= _AT_A_TIME

    def _chosen(self, tx: Tx, lane: LaneRecord, room: _Room, at_most: int) -> list[Any]:
        """Who is let in: those that take nothing, and as many others as there is room for."""
        if lane.paused_at is not None or (lane.limited_until is not None and lane.limited_until > room.now):
            return []
        rows = list(tx.run("find riders", self._riders, {"of_lane": lane.name, "most": at_most}))
        left = at_most - len(rows)
        most = left if room.most is None else min(left, room.most)
        if most > 0:
            rows += tx.run("find next", self._next, {"of_lane": lane.name, "most": most})
        return rows

    def _granted(self, tx: Tx, lane: LaneRecord, rows: list[Any], look_at: datetime) -> tuple[Granted, ...]:
        if not rows:
            return ()
        hold = NEEDLESS if lane.is_free else lane.hold
        how = {"new_hold": hold, "is_limited": lane.limit is not None, "look_at": look_at}
        tx.run("grant slots", self._grant, {"ids": [row.id for row in rows], **how})
        # By falling rank, so that the narrowest of each run is the last one written.
        wider = {row.run_id: row for row in tx.run("find wider", self._wider, {"runs": [row.run_id for row in rows]})}
        if wider:
            tx.run("queue slots", self._queue, {"ids": [row.id for row in wider.values()], "look_at": look_at})
        lanes = {run_id: row.lane for run_id, row in wider.items()}
        return tuple(Granted(row.run_id, row.ask, lanes.get(row.run_id), lane.is_free) for row in rows)

    def _wake_at(
        self, tx: Tx, lane: LaneRecord, room: _Room, rows: list[Any], again_s: float | None
    ) -> datetime | None:
        """When somebody has to look at this lane although nothing is given back before; None: never."""
        if lane.enlisting or again_s is not None:
            return later(room.now, again_s or _AGAIN_S) if not lane.enlisting else lane.wake_at
        if lane.paused_at is not None:
            return None
        if tx.run("look for queued", self._left, {"of_lane": lane.name}).first() is None:
            return None
        if lane.limited_until is not None and lane.limited_until > room.now:
            return lane.limited_until
        taken = len(rows)
        if room.free is not None and room.free - taken <= 0:
            return None
        if room.tokens is not None and room.tokens - taken <= 0:
            return room.tokens_at
        return later(room.now, _AGAIN_S)  # locked by its run just now


def _said(schema: Schema) -> Select[Any]:
    """What the code says that made the run which is the last of those that queue, and when."""
    slot, run = schema.slot, schema.run
    return (
        select(slot.c.said_text, run.c.created_at)
        .select_from(slot.join(run, run.c.id == slot.c.run_id))
        .where(slot.c.said_text.is_not(None))
        .order_by(run.c.created_at.desc(), slot.c.id.desc())
        .limit(1)
    )


def _spec(said_text: str) -> LaneSpec:
    return LaneSpec(**json.loads(said_text))


def _number(slot: Table, condition: ColumnElement[bool]) -> ColumnElement[int]:
    return select(func.count()).select_from(slot).where(condition).scalar_subquery()
