"""Counts of runs, and the check that nothing live is without a wake-up."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, and_, case, exists, func, not_, or_, select, tuple_

from celery_saga.core.records import RunRecord, StepKind
from celery_saga.core.status import Admission, RunStatus, StepStatus
from celery_saga.store.claims import ENDED, WORKING
from celery_saga.store.lanes import OCCUPIED, QUEUED
from celery_saga.store.rows import run_from
from celery_saga.store.schema import Schema
from celery_saga.store.searching import listed_columns
from celery_saga.store.session import Tx

_LIVE = tuple(s.value for s in RunStatus if not s.is_end)
_LIVE_STEP = tuple(s.value for s in StepStatus if not s.is_end)


class Listing:
    """Statements for people and checks."""

    def __init__(self, schema: Schema) -> None:
        run = schema.run
        self._live_versions = (
            select(run.c.saga, run.c.version, func.count())
            .where(run.c.status.in_(_LIVE))
            .group_by(run.c.saga, run.c.version)
            .order_by(run.c.saga, run.c.version)
        )
        self._stuck = _stuck(select(*listed_columns(run)), schema)

    def live_versions(self, tx: Tx) -> list[tuple[str, int, int]]:
        """(saga, version, number of live runs), in that order."""
        return [(saga, version, count) for saga, version, count in tx.run("count live runs", self._live_versions)]

    def without_wake_up(self, tx: Tx) -> list[RunRecord]:
        """Live, unparked runs that nothing would ever wake, and ended children whose parent will never know."""
        return [run_from(row) for row in tx.run("find stuck runs", self._stuck)]


def _stuck(lists: Select[Any], schema: Schema) -> Select[Any]:
    run, step, signal = schema.run, schema.step, schema.signal
    waiter = step.alias("waiter")
    of_run = and_(step.c.run_id == run.c.id, step.c.generation == run.c.generation)
    untaken = and_(signal.c.run_id == run.c.id, signal.c.taken_by.is_(None))
    wakes = or_(
        exists().where(of_run, step.c.status.in_(_LIVE_STEP), step.c.wake_at.is_not(None)),
        exists().where(untaken, signal.c.wake_at.is_not(None)),
    )
    # What is outside the run can end no other kind: a join and a part wait for rows of the run, a chord only listens.
    outside = step.c.kind.in_((StepKind.SIGNAL.value, StepKind.CHILD.value))
    waits = exists().where(of_run, step.c.status == StepStatus.WAITING.value, outside)
    waiting_for_it = and_(
        waiter.c.run_id == run.c.id,
        waiter.c.generation == run.c.generation,
        waiter.c.status == StepStatus.WAITING.value,
        waiter.c.kind == StepKind.SIGNAL.value,
    )
    ready = (
        exists()
        .where(
            untaken,
            tuple_(signal.c.run_id, signal.c.name).in_(
                select(waiter.c.run_id, waiter.c.task).where(waiting_for_it).correlate(run)
            ),
        )
        .correlate(run)
    )
    # Such a step is lost whatever else may wake its run.
    timed = and_(step.c.status == StepStatus.WAITING.value, step.c.due_at.is_not(None))
    at_work = step.c.status.in_((StepStatus.SCHEDULED.value, StepStatus.RUNNING.value))
    forgotten = exists().where(of_run, or_(at_work, timed), step.c.wake_at.is_(None))
    # A run that asks to be let in has no wake-up of its own: its slot queues, or is granted and will be told.
    slot = schema.slot
    in_line = exists().where(slot.c.run_id == run.c.id, slot.c.state.in_((*QUEUED, *OCCUPIED)))
    asks = run.c.admission == Admission.ASKED.value
    keeps_back = run.c.admission.in_((Admission.ASKED.value, Admission.LEAVING.value, Admission.OUT.value))
    never_moves = case((asks, not_(in_line)), else_=and_(not_(wakes), or_(not_(waits), ready)))
    stands_for_it = and_(step.c.run_id == run.c.parent_id, step.c.task_id == run.c.id)
    unreported = exists().where(stands_for_it, step.c.status == StepStatus.WAITING.value, step.c.wake_at.is_(None))
    return lists.where(
        run.c.wake_at.is_(None),
        or_(
            and_(run.c.status.in_(WORKING), or_(never_moves, and_(not_(keeps_back), forgotten))),
            and_(run.c.status.in_(ENDED), run.c.parent_id.is_not(None), unreported),
        ),
    )
