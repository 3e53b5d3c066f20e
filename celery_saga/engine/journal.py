"""What the engine writes to the log: what a person has to know."""

from __future__ import annotations

import logging
from collections.abc import Callable

from celery_saga.core.failure import Failure
from celery_saga.core.log_fields import fields_of
from celery_saga.core.ports import Transition
from celery_saga.core.records import Action, HistoryRecord, RunRecord, StepKind
from celery_saga.core.schedules import ScheduleRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus

__all__ = ["IsDeclared", "tell", "tell_forgotten", "tell_handed_back", "tell_not_fired", "tell_unpaused"]

logger = logging.getLogger("celery_saga.run")
step_logger = logging.getLogger("celery_saga.step")

IsDeclared = Callable[[RunRecord, Failure], bool]
"""Whether the run's saga declares an error; False where the saga is not known here."""

_TASKS = frozenset({StepKind.STEP.value, StepKind.UNDO.value, StepKind.CHORD.value, StepKind.PART.value})
_UNSEEN = {Action.LOST: "ended unseen", Action.TIMEOUT: "took longer than its time-out"}


def tell(transition: Transition, is_declared: IsDeclared) -> None:
    """What a committed transition has to say: each record once, because each transition is committed once.

    A WARNING for an attempt that failed or ended unseen, unless that was a declared error for good; an ERROR for a run
    that now waits for a person; an INFO for one that has ended in any other way.
    """
    old, new = transition.old, transition.new
    if new is old:
        return
    for row in new.history[len(old.history) :]:
        if row.kind in _TASKS and row.action in (Action.FAIL, Action.LOST, Action.TIMEOUT):
            _tell_attempt(new, row, is_declared)
    if new.is_parked and not old.is_parked:
        _tell_parked(new.run)
    elif new.run.status.is_end and new.run.status is not old.run.status:
        _tell_end(new.run)


def _tell_attempt(s: Snapshot, row: HistoryRecord, is_declared: IsDeclared) -> None:
    """A declared error for good is an outcome that the saga knows; one that is tried again is still trouble."""
    run, step = s.run, s.steps.get(row.step or "")
    is_over = step is None or step.status.is_end
    error = None if step is None else step.error
    known = row.action is Action.FAIL and row.kind != StepKind.UNDO.value and is_over and error is not None
    level = logging.INFO if known and error is not None and is_declared(run, error) else logging.WARNING
    what = _UNSEEN.get(row.action) or f"failed: {row.detail}"
    extra = fields_of(run, row.step, row.attempt, saga_key=run.key)
    text = "step %r of run %s of saga %r, attempt %s %s (%s)"
    then = "for good" if is_over else "it is tried again"
    step_logger.log(level, text, row.step, run.id, run.saga, row.attempt, what, then, extra=extra)


def _tell_parked(run: RunRecord) -> None:
    """One ERROR for a run that waits for a person; an INFO where a person parked it."""
    level = logging.INFO if run.reason == "operator" else logging.ERROR
    extra = fields_of(run, saga_key=run.key, saga_reason=run.reason)
    logger.log(level, "run %s of saga %r is parked (%s)%s", run.id, run.saga, run.reason, _why(run), extra=extra)


def _tell_end(run: RunRecord) -> None:
    level = logging.ERROR if run.status is RunStatus.COMPENSATION_FAILED else logging.INFO
    why = "" if run.status is RunStatus.COMPLETED else _why(run)
    extra = fields_of(run, saga_key=run.key, saga_status=run.status.value)
    logger.log(level, "run %s of saga %r: %s%s", run.id, run.saga, run.status.value, why, extra=extra)


def _why(run: RunRecord) -> str:
    error = run.error
    return "" if error is None else f": {error.type_name.rpartition('.')[2]}: {error.message}"


_AGAIN_AFTER_S = 60.0
_told_at_s: dict[tuple[str, int], float] = {}


def tell_handed_back(run: RunRecord, now_s: float) -> None:
    """One WARNING a minute for a saga and version that this process does not know, however many runs wait for it.

    Args:
        now_s: of a monotonic clock, in seconds.
    """
    wanted = (run.saga, run.version)
    if now_s - _told_at_s.get(wanted, -_AGAIN_AFTER_S) < _AGAIN_AFTER_S:
        return
    _told_at_s[wanted] = now_s
    logger.warning(
        "run %s: this process does not know saga %r version %d, and left the run to another one. "
        "If none knows it, deploy the code that does, or keep the old version until its runs have ended.",
        *(run.id, run.saga, run.version),
        extra=fields_of(run, saga_key=run.key),
    )


def tell_not_fired(schedule: ScheduleRecord, why: str) -> None:
    """A WARNING for a schedule whose run could not be started now; its delay doubles, and with it the next one."""
    extra = {"saga_name": schedule.saga, "saga_schedule": schedule.id}
    text = "schedule %r of saga %r could not be fired, and is tried again: %s"
    logger.warning(text, schedule.id, schedule.saga, why, extra=extra)


def tell_unpaused(lane: str, by: str | None, reason: str) -> None:
    """One INFO for a pause that was taken back."""
    why = f": {reason}" if reason else ""
    logger.info("%s: the pause was taken back by %s%s", lane, by or "somebody", why, extra={"saga_lane": lane})


def tell_forgotten(lane: str, by: str | None, reason: str) -> None:
    """One INFO for a lane of which nothing is said any more."""
    why = f": {reason}" if reason else ""
    logger.info("%s was forgotten by %s%s", lane, by or "somebody", why, extra={"saga_lane": lane})
