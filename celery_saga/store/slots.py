"""A run's own slots: asked for, given back and taken up in the transactions of the run, which lock no lane."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Table, and_, bindparam, case, delete, false, insert, literal, or_, select, true, update
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.admission import ALL, lane_name, moves_slots, saga_name
from celery_saga.core.lanes import SlotRecord, SlotState
from celery_saga.core.orders import RunSpec
from celery_saga.core.records import RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import Admission
from celery_saga.store.dialects import Database
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.types import Instant

NEEDLESS = "none"
"""The `hold` of a slot that was granted by a row which holds nobody back."""
_GRANTED = (SlotState.HELD.value, SlotState.USED.value)
_LIFE = "life"


def holds_back(schema: Schema, *, is_child: bool = False) -> ColumnElement[bool]:
    """Rows that runs must queue for; children, which are in their parent's slot, only where it is paused."""
    lane = schema.lane
    is_paused = lane.c.paused_at.is_not(None)
    return is_paused if is_child else or_(is_paused, lane.c.cap.is_not(None), lane.c.limit.is_not(None))


class Slots:
    """Statements about the slots of one run, inside a transaction that has the run."""

    def __init__(self, schema: Schema, database: Database) -> None:
        self._schema = schema
        slot, lane = schema.slot, schema.lane
        mine = slot.c.run_id == bindparam("of_run")
        self._load = (
            select(slot.c.lane, slot.c.run_id, slot.c.rank, slot.c.state, slot.c.ask, slot.c.hold, slot.c.limited)
            .where(mine)
            .order_by(slot.c.rank)
        )
        wide = lane.c.name.in_(bindparam("names", expanding=True))
        self._gates = {
            is_child: select(lane.c.name).where(wide, holds_back(schema, is_child=is_child)).order_by(lane.c.name)
            for is_child in (False, True)
        }
        self._insert = database.insert_unless_there(slot)
        self._log = insert(schema.grant)
        self._drop = delete(slot).where(mine, slot.c.hold == NEEDLESS)
        self._take_up = (
            update(slot)
            .where(mine, slot.c.state == SlotState.HELD.value)
            .values(state=SlotState.USED.value, wake_at=None)
        )
        self._prepare_moves(slot, mine)

    def _prepare_moves(self, slot: Table, mine: ColumnElement[bool]) -> None:
        is_first = slot.c.rank == bindparam("first")
        look_at = bindparam("look_at", type_=Instant())
        for_life = and_(slot.c.state == SlotState.USED.value, slot.c.hold == _LIFE)
        kept = case((for_life, true()), else_=slot.c.kept)
        # `kept` comes before `state` in the table, and so in the SET: the MySQL family works from left to right.
        self._ask = (
            update(slot)
            .where(mine)
            .values(
                kept=kept,
                state=case((is_first, in_turn(slot, for_life)), else_=SlotState.IDLE.value),
                ask=bindparam("new_ask"),
                wake_at=case((is_first, look_at), else_=None),
            )
        )
        is_freed = and_(slot.c.state.in_(_GRANTED), slot.c.kept == false(), slot.c.hold != _LIFE)
        is_untaken = and_(slot.c.state == SlotState.HELD.value, slot.c.kept == false(), slot.c.hold == _LIFE)
        gives = or_(is_freed, is_untaken, slot.c.state == SlotState.FREED.value)
        # `wake_at` is last in the table: by then `state` is the new one on the MySQL family, and the old one elsewhere.
        self._give_back = (
            update(slot)
            .where(mine)
            .values(
                kept=kept,
                state=case((gives, SlotState.FREED.value), else_=SlotState.IDLE.value),
                wake_at=case((gives, look_at), else_=None),
            )
        )
        self._end = update(slot).where(mine).values(kept=false(), state=SlotState.GONE.value, wake_at=look_at)

    def load(self, tx: Tx, run_id: str) -> list[SlotRecord]:
        """The slots of a run, by rank."""
        return [
            SlotRecord(row.lane, row.run_id, row.rank, SlotState(row.state), row.ask, row.hold == NEEDLESS)
            for row in tx.run("load slots", self._load, {"of_run": run_id})
        ]

    def is_held_back(self, saga: ColumnElement[str], parent_id: ColumnElement[Any]) -> ColumnElement[bool]:
        """Whether a run that has no slots must queue now: a column for a statement that reads the run anyway."""
        lane = self._schema.lane
        paused = holds_back(self._schema, is_child=True)
        whom = or_(paused, and_(parent_id.is_(None), holds_back(self._schema)))
        wide = or_(lane.c.name == ALL, lane.c.name == literal(saga_name("")).concat(saga))
        return select(literal(1)).select_from(lane).where(wide, whom).exists()

    def follow(self, tx: Tx, old: RunRecord, new: Snapshot, now: datetime) -> tuple[str, ...]:
        """Write what a transition means for the slots; the lanes that somebody has to look at now."""
        run = new.run
        if not moves_slots(old, run):
            return ()
        look_at = new.look_at or now
        if run.admission == Admission.NONE:
            tx.run("drop slots", self._drop, {"of_run": run.id})
            return ()
        if run.status.is_end:
            return self._give(tx, run, self._end, look_at)
        if run.admission == Admission.ASKED:
            return self.ask(tx, run, look_at)
        if run.admission == Admission.HELD:
            self._taken_up(tx, run, now)
            return ()
        return self._give(tx, run, self._give_back, look_at)

    def ask(self, tx: Tx, run: RunRecord, look_at: datetime, *, is_new: bool = False) -> tuple[str, ...]:
        """Queue the run for the first of its slots, with those that it lacks; the lane where it queues now."""
        there = {} if is_new else {slot.lane: slot.rank for slot in self.load(tx, run.id)}
        wanted = self._wanted(tx, run)
        if not there and not wanted:
            wanted = {saga_name(run.saga): 1}  # whatever held it back is gone: that row lets it in at once
        first = min((*there.values(), *wanted.values()))
        fresh = {name: rank for name, rank in wanted.items() if name not in there}
        if fresh:
            rows = [self._row(run, name, rank, look_at if rank == first else None) for name, rank in fresh.items()]
            tx.run("insert slots", self._insert, rows[0] if len(rows) == 1 else rows)
        if there:
            tx.run("ask", self._ask, {"of_run": run.id, "first": first, "new_ask": run.asks, "look_at": look_at})
        return tuple(name for name, rank in {**there, **wanted}.items() if rank == first)

    def start(self, tx: Tx, runs: Iterable[RunRecord], look_at: datetime) -> None:
        """Let these new runs queue that ask before they begin."""
        for run in runs:
            if run.admission == Admission.ASKED:
                self.ask(tx, run, look_at, is_new=True)

    def _wanted(self, tx: Tx, run: RunRecord) -> dict[str, int]:
        is_child = run.parent_id is not None
        wide = {saga_name(run.saga): 1, ALL: 2}
        found = tx.run("load gates", self._gates[is_child], {"names": list(wide)})
        gates = {row.name: wide[row.name] for row in found}
        return gates if run.lane is None or is_child else {lane_name(run.lane): 0, **gates}

    def _row(self, run: RunRecord, name: str, rank: int, look_at: datetime | None) -> dict[str, Any]:
        return {
            "lane": name,
            "run_id": run.id,
            "rank": rank,
            "turn": -run.priority,
            "counts": run.parent_id is None,
            "kept": False,
            "state": _new_state(run, look_at).value,
            "hold": "active",
            "limited": False,
            "ask": run.asks,
            "said_text": _said(run) if rank == 0 else None,
            "wake_at": look_at,
        }

    def _give(self, tx: Tx, run: RunRecord, how: Any, look_at: datetime) -> tuple[str, ...]:
        there = self.load(tx, run.id)
        if there:
            tx.run("give back", how, {"of_run": run.id, "look_at": look_at})
        return tuple(slot.lane for slot in there if run.status.is_end or slot.state in _GRANTED)

    def _taken_up(self, tx: Tx, run: RunRecord, now: datetime) -> None:
        rows = tx.run("load slots", self._load, {"of_run": run.id}).all()
        held = [row for row in rows if row.state == SlotState.HELD.value]
        if limited := [{"lane": row.lane, "at": now} for row in held if row.limited]:
            tx.run("log grants", self._log, limited[0] if len(limited) == 1 else limited)
        if any(row.hold == NEEDLESS for row in held):
            tx.run("drop slots", self._drop, {"of_run": run.id})
        tx.run("take up", self._take_up, {"of_run": run.id})


def _new_state(run: RunRecord, look_at: datetime | None) -> SlotState:
    if look_at is None:
        return SlotState.IDLE
    return SlotState.QUEUED if run.parent_id is None else SlotState.BACK


def rides(slot: Table, *others: ColumnElement[bool]) -> ColumnElement[bool]:
    """It takes nothing of the lane that is not its own already."""
    return or_(slot.c.kept == true(), slot.c.counts == false(), *others)


def in_turn(slot: Table, *others: ColumnElement[bool]) -> ColumnElement[str]:
    """The state of a slot that is asked for now."""
    return case((rides(slot, *others), SlotState.BACK.value), else_=SlotState.QUEUED.value)


def _said(run: RunRecord) -> str | None:
    """What the code that started the run says of its lane."""
    lane = RunSpec.from_text(run.spec_text).lane
    return None if lane is None else json.dumps(lane)
