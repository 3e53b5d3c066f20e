"""Statements that load steps: all of a run, those that are not folded, or those of a focus."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    FromClause,
    Select,
    Table,
    and_,
    bindparam,
    exists,
    false,
    func,
    not_,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.focus import Extent, Focus, region_of, rollbacks_around
from celery_saga.core.records import StepKind, undo_key
from celery_saga.core.stack import TOP
from celery_saga.core.status import StepStatus
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.rows import STEP_FIELDS, columns
from celery_saga.store.schema import Schema

_ENDS = tuple(status.value for status in StepStatus if status.is_end)
_USED_UP = (StepStatus.FAILED.value, StepStatus.LOST.value)
_AT_WORK = tuple(x.value for x in (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING))


class StepLoads:
    """Built once. Each load gives the time of now, the number of untaken signals, the place, and the step's fields.

    Args:
        untaken: which signals of the run nobody has taken.
    """

    def __init__(self, schema: Schema, clock: Clock, database: Database, untaken: ColumnElement[bool]) -> None:
        step, signal = schema.step, schema.signal
        waiting = select(func.count()).select_from(signal).where(untaken).scalar_subquery()
        # The clock and the number of signals come in the same round trip, also for a run without steps.
        frame = select(clock.now.label("now"), waiting.label("waiting")).subquery("frame")
        mine = and_(step.c.run_id == bindparam("run_id"), step.c.generation == bindparam("generation"))
        unfolded = and_(mine, step.c.folded == false())
        # Exactly these, so that the index leads there whatever else the run has done.
        wanted = (
            step.c.region.in_(bindparam("regions", expanding=True)),
            and_(
                step.c.region.in_(bindparam("key_regions", expanding=True)),
                step.c.key.in_(bindparam("keys", expanding=True)),
            ),
            and_(step.c.region >= bindparam("within", type_=step.c.region.type), step.c.region < bindparam("beyond")),
        )

        def steps_where(condition: ColumnElement[bool], steps: FromClause = step) -> Select[Any]:
            return (
                select(frame.c.now, frame.c.waiting, steps.c.place, *columns(steps, STEP_FIELDS))
                .select_from(frame.outerjoin(steps, condition))
                .order_by(steps.c.place, steps.c.key)
            )

        self._steps = {Extent.LIVE: steps_where(unfolded), Extent.ALL: steps_where(mine)}
        of_keys = and_(mine, step.c.key.in_(bindparam("keys", expanding=True)))
        if database.looks_up_alternatives:
            focused = steps_where(and_(unfolded, or_(*wanted)))
        else:
            found = union_all(*(select(step).where(unfolded, each) for each in wanted)).subquery("found")
            focused = steps_where(true(), found)
        self._focused = {False: focused, True: steps_where(of_keys)}
        self.stack = _stack(step, mine)
        self.one = select(*columns(step, STEP_FIELDS)).where(mine, step.c.key == bindparam("key"))
        self.status = select(step.c.status).where(mine, step.c.key == bindparam("key"))
        elsewhere = not_(step.c.key.in_(bindparam("keys", expanding=True)))
        # Not as part of those above: a planner that joins it would count the steps of the whole run.
        self.busy = select(step.c.key).where(unfolded, step.c.status.in_(_AT_WORK), elsewhere).limit(1)
        # As core.admission has it: what runs or is to run now, undos and chords aside, and runs that are waited for.
        is_child = and_(step.c.kind == StepKind.CHILD.value, step.c.status == StepStatus.WAITING.value)
        is_sent = step.c.wake_at.is_not(None)  # else it is kept back
        is_due = and_(step.c.status == StepStatus.SCHEDULED.value, step.c.due_at.is_(None), is_sent)
        is_active = or_(step.c.status == StepStatus.RUNNING.value, is_due, is_child)
        is_bound = step.c.kind.not_in((StepKind.UNDO.value, StepKind.CHORD.value))
        self.active = select(step.c.key).where(unfolded, is_active, is_bound, elsewhere).limit(1)

    def stack_binds(self, prefix: str) -> dict[str, Any]:
        """What the stack within a prefix is asked with, besides run and generation."""
        # "0" follows "/", and '"' follows "!": what `core.focus.is_inside` says, byte by byte
        return {
            "prefix": prefix,
            "from_slash": prefix + "/",
            "to_slash": prefix + "0",
            "from_mark": prefix + "!",
            "to_mark": prefix + '"',
            "around": list(rollbacks_around(prefix)),
        }

    def statement(self, focus: Focus | None, extent: Extent) -> Select[Any]:
        """Loads a focus, or as many as `extent` says."""
        return self._steps[extent] if focus is None else self._focused[focus.is_folded]

    def binds(self, focus: Focus | None) -> dict[str, Any]:
        """What a load of a focus is asked with, besides run and generation; nothing for the others."""
        if focus is None:
            return {}
        if focus.is_folded:
            return {"keys": list(focus.keys)}
        within = "" if focus.within is None else focus.within
        return {
            "regions": list(focus.regions),
            "keys": list(focus.keys) or [""],
            "key_regions": sorted({region_of(key) for key in focus.keys}),
            "within": within,
            # "0" follows "/": every region that lies within is below it, byte by byte
            "beyond": within[:-1] + "0" if within else "",
        }


def _stack(step: Table, mine: ColumnElement[bool]) -> dict[bool, Select[Any]]:
    """Loads the top of a stack, as of `core.stack`: of the whole run, or (False) of what lies within a prefix."""
    inside = or_(
        step.c.key == bindparam("prefix"),
        and_(step.c.key >= bindparam("from_slash"), step.c.key < bindparam("to_slash")),
        and_(step.c.key >= bindparam("from_mark"), step.c.key < bindparam("to_mark")),
    )
    around = step.c.key.in_(bindparam("around", expanding=True))
    undo = step.alias("undo")
    ordered = exists().where(
        undo.c.run_id == step.c.run_id,
        undo.c.generation == step.c.generation,
        undo.c.key == step.c.key.concat(undo_key("")),
    )
    is_undo = step.c.kind == StepKind.UNDO.value
    has_effect = or_(step.c.status == StepStatus.DONE.value, and_(step.c.maybe == true(), step.c.status.in_(_ENDS)))
    can_be_undone = or_(step.c.kind == StepKind.CHILD.value, step.c.undoable == true())
    wanted = and_(mine, not_(is_undo), has_effect, can_be_undone, not_(ordered))
    last_first = (func.coalesce(step.c.seq, 0).desc(), step.c.ordinal.desc())
    used_up = select(step.c.key).where(mine, is_undo, step.c.status.in_(_USED_UP)).order_by(step.c.place).limit(1)

    def load(is_whole: bool) -> Select[Any]:
        within = true() if is_whole else inside
        top = select(step.c.key).where(wanted, within).order_by(*last_first).limit(TOP)
        # Wrapped, because the MySQL family takes no LIMIT right within IN.
        are_open = and_(within, step.c.status.not_in(_ENDS))
        parts = [are_open, step.c.key.in_(select(top.subquery("top").c.key))]
        parts.append(step.c.key.in_(select(used_up.subquery("used_up").c.key)) if is_whole else around)
        return select(*columns(step, STEP_FIELDS)).where(mine, or_(*parts)).order_by(step.c.place, step.c.key)

    return {is_whole: load(is_whole) for is_whole in (True, False)}
