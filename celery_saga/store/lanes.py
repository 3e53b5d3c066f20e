"""Lanes: what is said of them, who is paused, and what they hold; admission itself is in `admission`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, and_, bindparam, case, delete, func, not_, or_, select, true, update

from celery_saga.core import wakeup
from celery_saga.core.admission import ALL, LaneSpec
from celery_saga.core.lanes import LaneLoad, LaneRecord, Place, SlotState
from celery_saga.core.status import Admission, RunStatus
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx

OCCUPIED = (SlotState.HELD.value, SlotState.USED.value)
NOBODY = "nobody"
"""The source of a row that is there only because it was paused, say."""
UNSAID = LaneSpec(cap=1)
"""A lane that nothing is said of lets one run in at a time."""
BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)
"""When the code of a run has spoken that says nothing of its lane: whatever is said later counts."""
QUEUED = (SlotState.QUEUED.value, SlotState.BACK.value)
_FORWARD = tuple(status.value for status in RunStatus if status.is_forward)
_QUEUING = (SlotState.QUEUED.value, SlotState.BACK.value)


def lane_from(row: Row[Any] | Any) -> LaneRecord:
    """The lane of a row."""
    return LaneRecord(
        name=row.name,
        cap=row.cap,
        hold=row.hold,
        limit=row.limit,
        window_s=None if row.window_ms is None else row.window_ms / 1000,
        source=row.source,
        said_at=row.said_at,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        paused_reason=row.paused_reason,
        limited_until=row.limited_until,
        enlisting=row.enlisting,
        wake_at=row.wake_at,
    )


def row_of(name: str, spec: LaneSpec) -> dict[str, Any]:
    """The row of a new lane."""
    return {"name": name, "source": "code", "enlisting": False, **_said(spec)}


def _said(spec: LaneSpec) -> dict[str, Any]:
    """The columns that a spec says."""
    window_ms = None if spec.window_s is None else max(1, round(spec.window_s * 1000))
    return {"cap": spec.cap, "hold": spec.hold, "limit": spec.limit, "window_ms": window_ms}


def says_else(lane: LaneRecord, spec: LaneSpec) -> bool:
    """Whether this is something else than what is said of the lane, as tables keep it."""
    return _said(lane.spec) != _said(spec)


def must_say(lane: LaneRecord, spec: LaneSpec) -> bool:
    """Whether what code or settings say by name is to be written: an operator goes before them, they before runs."""
    return lane.source != "operator" and (lane.said_at is not None or says_else(lane, spec))


class Lanes:
    """Statements about lanes as operators and code see them."""

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._schema, self._clock = schema, clock
        lane, slot = schema.lane, schema.slot
        by_name = lane.c.name == bindparam("of_lane")
        self._all = select(lane).order_by(lane.c.name)
        self._some = self._all.where(lane.c.name.in_(bindparam("names", expanding=True)))
        self.lock = select(lane).where(by_name).with_for_update()
        self.insert = database.insert_unless_there(lane)
        occupied = and_(slot.c.counts == true(), or_(slot.c.state.in_(OCCUPIED), slot.c.kept == true()))
        self._loads = (
            select(
                slot.c.lane,
                func.sum(case((occupied, 1), else_=0)).label("used"),
                func.sum(case((slot.c.state.in_(QUEUED), 1), else_=0)).label("queued"),
                func.sum(case((slot.c.state != SlotState.GONE.value, 1), else_=0)).label("runs"),
            )
            .where(slot.c.lane.in_(bindparam("names", expanding=True)))
            .group_by(slot.c.lane)
        )
        self._by_name = by_name
        gone = and_(slot.c.lane == bindparam("of_lane"), slot.c.state == SlotState.GONE.value)
        of_lane = schema.grant.c.lane == bindparam("of_lane")
        self._forget = (delete(slot).where(gone), delete(schema.grant).where(of_lane), delete(lane).where(by_name))
        mine = slot.c.run_id == bindparam("of_run")
        self._waits = (
            select(slot.c.lane, slot.c.turn, slot.c.id).where(mine, slot.c.state.in_(QUEUED)).order_by(slot.c.rank)
        )
        is_before = or_(
            slot.c.turn < bindparam("my_turn"),
            and_(slot.c.turn == bindparam("my_turn"), slot.c.id < bindparam("my_id")),
        )
        self._ahead = (
            select(func.count())
            .select_from(slot)
            .where(slot.c.lane == bindparam("of_lane"), slot.c.state.in_(QUEUED), is_before)
        )

    # -- reading -----------------------------------------------------------------------------------------------
    def all(self, tx: Tx, names: Sequence[str] | None = None) -> list[LaneLoad]:
        """Lanes by name, with their use."""
        rows = tx.run("load lanes", self._all if names is None else self._some, _names(names)).all()
        lanes = [lane_from(row) for row in rows]
        if not lanes:
            return []
        loads = {
            row.lane: (int(row.used), int(row.queued), int(row.runs))
            for row in tx.run("count slots", self._loads, {"names": [lane.name for lane in lanes]})
        }
        return [LaneLoad(lane, *loads.get(lane.name, (0, 0, 0))) for lane in lanes]

    def place_of(self, tx: Tx, run_id: str) -> Place | None:
        """Where a run queues."""
        row = tx.run("load place", self._waits, {"of_run": run_id}).first()
        if row is None:
            return None
        found = tx.run("load lanes", self._some, {"names": [row.lane]}).first()
        lane = LaneRecord(row.lane) if found is None else lane_from(found)
        ahead = {"of_lane": row.lane, "my_turn": row.turn, "my_id": row.id}
        return Place(lane, tx.run("count those ahead", self._ahead, ahead).scalar_one())

    def now(self, tx: Tx) -> datetime:
        """The database's time."""
        value: datetime = tx.run("read clock", select(self._clock.now), self._clock.binds()).scalar_one()
        return value

    # -- what is said ------------------------------------------------------------------------------------------
    def locked(self, tx: Tx, name: str, spec: LaneSpec | None = None, said_at: datetime | None = None) -> LaneRecord:
        """The lane, locked; made now where there is none, as `spec` says; None: nobody has said anything of it."""
        row = tx.run("lock lane", self.lock, {"of_lane": name}).one_or_none()
        if row is None:
            made = row_of(name, UNSAID if spec is None and name.startswith("lane:") else spec or LaneSpec())
            tx.run("insert lane", self.insert, made | ({"source": NOBODY} if spec is None else {"said_at": said_at}))
            row = tx.run("lock lane", self.lock, {"of_lane": name}).one()
        return lane_from(row)

    def said_by_run(self, tx: Tx, name: str, spec: LaneSpec, at: datetime) -> LaneRecord:
        """The lane, locked, of which the code of a run that was made at `at` says this."""
        lane = self.locked(tx, name, spec, at)
        if lane.said_at == at and not says_else(lane, spec):
            return lane
        self.write(tx, name, **_said(spec), source="code", said_at=at)
        return self.locked(tx, name)

    def write(self, tx: Tx, name: str, **columns: Any) -> None:
        """Change a lane that is locked."""
        tx.run("update lane", update(self._schema.lane).where(self._by_name).values(columns), {"of_lane": name})

    def sync(self, tx: Tx, name: str, spec: LaneSpec, look_s: float) -> None:
        """What code says of one lane, unless an operator has said something else; in place of what code said before."""
        lane = self.locked(tx, name)
        if must_say(lane, spec):
            self._say(tx, lane, spec, "code", look_s)

    def set(self, tx: Tx, name: str, spec: LaneSpec, look_s: float) -> LaneRecord:
        """What an operator says."""
        return self._say(tx, self.locked(tx, name), spec, "operator", look_s)

    def _say(self, tx: Tx, lane: LaneRecord, spec: LaneSpec, source: str, look_s: float) -> LaneRecord:
        """Written with a wake-up: whoever writes it looks at the lane next, and a sweeper if that one dies."""
        enlists = not lane.name.startswith("lane:") and (spec.cap is not None or spec.limit is not None)
        look_at, fresh = later(self.now(tx), look_s), {"said_at": None, "enlisting": lane.enlisting or enlists}
        self.write(tx, lane.name, **_said(spec), source=source, wake_at=look_at, **fresh)
        return self.locked(tx, lane.name)

    def pause(self, tx: Tx, name: str, by: str | None, reason: str, look_s: float) -> LaneRecord:
        """Nothing is admitted any more."""
        lane, now = self.locked(tx, name), self.now(tx)
        fresh = {"paused_at": now, "paused_by": by, "paused_reason": reason or None} if lane.paused_at is None else {}
        self.write(tx, name, **fresh, enlisting=True, wake_at=later(now, look_s))
        return self.locked(tx, name)

    def unpause(self, tx: Tx, name: str, look_s: float) -> LaneRecord | None:
        """It is admitted again, whatever kept runs out: a pause, or a limit that a step has met."""
        row = tx.run("lock lane", self.lock, {"of_lane": name}).one_or_none()
        now = self.now(tx)
        if row is None or (row.paused_at is None and (row.limited_until is None or row.limited_until <= now)):
            tx.discard()
            return None
        over = dict.fromkeys(("paused_at", "paused_by", "paused_reason", "limited_until"))
        self.write(tx, name, **over, enlisting=False, wake_at=later(now, look_s))
        return self.locked(tx, name)

    def forget(self, tx: Tx, name: str) -> LaneLoad | None:
        """Nothing is said of it any more, unless it is in use. Who asks meanwhile makes it anew."""
        if tx.run("lock lane", self.lock, {"of_lane": name}).one_or_none() is None:
            tx.discard()
            return None
        [load] = self.all(tx, [name])
        if load.runs:
            tx.discard()
        else:
            for statement in self._forget:
                tx.run("forget lane", statement, {"of_lane": name})
        return load

    def limit(self, tx: Tx, name: str, delay_s: float) -> None:
        """Nothing is admitted for a while."""
        lane = self.locked(tx, name)
        until = later(self.now(tx), delay_s)
        if lane.limited_until is None or lane.limited_until < until:
            # Who has the runs of a pause queue is not put off.
            self.write(tx, name, limited_until=until, wake_at=lane.wake_at if lane.enlisting else until)

    # -- whom it comes over ------------------------------------------------------------------------------------
    def to_enlist(self, tx: Tx, name: str, after: str, limit: int) -> list[str]:
        """Ids of live forward runs that a row is about and that do not queue there; children only under a pause."""
        run, slot = self._schema.run, self._schema.slot
        lane = self._schema.lane
        is_paused = select(lane.c.name).where(lane.c.name == name, lane.c.paused_at.is_not(None)).exists()
        whom = or_(run.c.parent_id.is_(None), is_paused)  # children are in the slot of their parent
        queues = select(slot.c.id).where(slot.c.run_id == run.c.id, slot.c.lane == name, slot.c.state.in_(_QUEUING))
        whom = and_(whom, or_(run.c.admission != Admission.ASKED.value, not_(queues.exists())))
        found = select(run.c.id).where(run.c.status.in_(_FORWARD), run.c.id > after, whom)
        if name.startswith("lane:"):
            mine = select(slot.c.run_id).where(slot.c.lane == name)
            found = found.where(run.c.id.in_(mine))
        elif name != ALL:
            found = found.where(run.c.saga == name.removeprefix("saga:"))
        rows = tx.run("find runs to enlist", found.order_by(run.c.id).limit(limit))
        return [row.id for row in rows]

    def enlisted(self, tx: Tx, name: str) -> None:
        """They all queue."""
        self.locked(tx, name)
        self.write(tx, name, enlisting=False)


def _names(names: Sequence[str] | None) -> Mapping[str, Any]:
    return {} if names is None else {"names": list(names)}


def later(now: datetime, delay_s: float) -> datetime:
    """So many seconds from now; the last representable instant where that is beyond the calendar."""
    return wakeup.after(now, delay_s)
