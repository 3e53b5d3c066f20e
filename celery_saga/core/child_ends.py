"""The end of a child, as it comes back to its parent; and what a parent asks of a child, as the child does it."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from celery_saga.core import failure, joins, operator
from celery_saga.core.children import is_unwanted, skips_undos
from celery_saga.core.focus import Extent
from celery_saga.core.records import Action, RunRecord, StepKind, StepRecord, undo_key
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, RunStatus, StepEvent, StepStatus
from celery_saga.errors import RunCancelled

_USED_UP = (StepStatus.FAILED, StepStatus.LOST)


# -- in the parent's transaction --------------------------------------------------------------------------------------
def report(s: Snapshot, child: RunRecord, now: datetime, resend_s: float) -> Snapshot:
    """Record how a child ended, or was undone; the same snapshot where the parent knows it, or never asked."""
    step = row_of(s, child)
    if step is None:
        return s
    if step.status is StepStatus.WAITING:
        return _ended(s, step, child, now, resend_s)
    if not step.status.is_end:
        return s
    if child.status is not RunStatus.COMPENSATION_FAILED and step.status is StepStatus.FAILED and step.maybe:
        s = s.with_step(replace(step, maybe=False))  # a person has repaired its undos
    undo = s.steps.get(undo_key(step.key))  # one that is not through is never folded
    return s if undo is None else _undone(s, undo, child, now, resend_s)


def row_of(s: Snapshot, child: RunRecord) -> StepRecord | None:
    """The row that stands for this child; None: its parent has started over and forgotten it."""
    step = s.step(child.parent_key or "")
    return step if step is not None and step.kind is StepKind.CHILD and step.task_id == child.id else None


def _ended(s: Snapshot, step: StepRecord, child: RunRecord, now: datetime, resend_s: float) -> Snapshot:
    unwanted = is_unwanted(s, step)
    over = {"wake_at": None, "sends": 0, "ended_at": now}
    if child.status is RunStatus.COMPLETED:
        s = s.move_step(step.key, StepEvent.FIRED, result_text=child.result_text or "null", **over)
        s = s.note(now, Action.OK, "child", step=step.key)
    elif child.status is RunStatus.CANCELLED and unwanted:
        s = s.move_step(step.key, StepEvent.CANCELLED, maybe=child.skip_undos, **over)
        s = s.note(now, Action.CANCEL, "child", step=step.key, detail="undos are skipped" if child.skip_undos else None)
    else:
        error_text = child.error_text if child.outcome is RunStatus.FAILED else None
        error_text = error_text or failure.to_text(failure.capture(_cancelled(step, child)))
        is_left = child.status is RunStatus.COMPENSATION_FAILED
        s = s.move_step(step.key, StepEvent.FAILED, error_text=error_text, maybe=is_left, **over)
        s = s.note(now, Action.FAIL, "child", step=step.key, detail=_detail(child, error_text))
    return joins.ended(s, step.key, now, resend_s)


def _cancelled(step: StepRecord, child: RunRecord) -> RunCancelled:
    return RunCancelled(f"child {step.key!r}: run {child.id!r} of saga {child.saga!r} was cancelled")


def _detail(child: RunRecord, error_text: str) -> str:
    error = failure.from_text(error_text)
    detail = f"{error.type_name.rpartition('.')[2]}: {error.message}"
    if child.status is RunStatus.COMPENSATION_FAILED:
        detail = f"compensation_failed, its undos are used up; {detail}"
    return detail[:500]


def _undone(s: Snapshot, undo: StepRecord, child: RunRecord, now: datetime, resend_s: float) -> Snapshot:
    is_left = child.status is RunStatus.COMPENSATION_FAILED
    over = {"wake_at": None, "sends": 0, "ended_at": now}
    if undo.status is StepStatus.WAITING and is_left:
        error_text = child.error_text or failure.to_text(failure.capture(_cancelled(undo, child)))
        s = s.move_step(undo.key, StepEvent.FAILED, error_text=error_text, failures=undo.failures + 1, **over)
        s = s.note(now, Action.FAIL, "undo", step=undo.key, detail=_detail(child, error_text))
    elif undo.status is StepStatus.WAITING and child.status is not RunStatus.COMPLETED:
        s = s.move_step(undo.key, StepEvent.FIRED, result_text="null", **over)
        s = s.note(now, Action.OK, "undo", step=undo.key)
    elif undo.status in _USED_UP and not is_left and child.status is not RunStatus.COMPLETED:
        s = s.move_step(undo.key, StepEvent.RESOLVED, error_text=None, **over)
        s = s.note(now, Action.OK, "undo", step=undo.key, detail="its undos were repaired")
        s = operator.reopen_run(s, now, resend_s)
    else:
        return s
    return joins.ended(s, undo.key, now, resend_s)


# -- what the parent wants ---------------------------------------------------------------------------------------------
class Wish(Enum):
    """What a parent wants of its child; once wanted it stays so until the child's end is recorded."""

    NOTHING = "nothing"
    CANCEL = "cancel"
    CANCEL_WITHOUT_UNDOS = "cancel_without_undos"
    UNDO = "undo"


def wish_of(parent: Snapshot, child: RunRecord) -> Wish:
    """What the parent, as it was read, wants.

    Raises:
        Incomplete: the snapshot of the parent does not show it.
    """
    step = row_of(parent, child)
    if step is None:
        return Wish.NOTHING
    if step.status is StepStatus.WAITING:
        if not is_unwanted(parent, step):
            return Wish.NOTHING
        return Wish.CANCEL_WITHOUT_UNDOS if skips_undos(parent) else Wish.CANCEL
    undo = parent.steps.get(undo_key(step.key))
    return Wish.UNDO if undo is not None and undo.status is StepStatus.WAITING else Wish.NOTHING


# -- in the child's transaction ---------------------------------------------------------------------------------------
def may_obey(run: RunRecord, wish: Wish) -> bool:
    """There is something that the child can still do about it."""
    if wish is Wish.UNDO:
        is_skipped = run.status is RunStatus.CANCELLED and run.skip_undos
        # Without a wake-up the parent knows that its undos are used up, and asks again.
        is_asked_again = run.status is RunStatus.COMPENSATION_FAILED and run.wake_at is None
        return run.status is RunStatus.COMPLETED or is_skipped or is_asked_again
    return wish is not Wish.NOTHING and not run.status.is_end and (run.outcome is None or run.restart)


def obey(s: Snapshot, wish: Wish, now: datetime, resend_s: float) -> Snapshot:
    """Do what the parent wants; the same snapshot where that is done, or cannot be."""
    if not may_obey(s.run, wish):
        return s
    s.need(Extent.ALL)
    reason = f"by its parent, run {s.run.parent_id}"
    if wish is not Wish.UNDO:
        return operator.cancel(s, now, compensate=wish is Wish.CANCEL, reason=reason, by=None)
    if s.run.status is not RunStatus.COMPENSATION_FAILED:
        return operator.compensate(s, now, reason=reason, by=None)
    s = s.note(now, Action.RETRY_UNDO, "run", reason=reason)
    s = s.move_run(RunEvent.UNDO_REOPENED, reason=None, ended_at=None)
    for undo in tuple(s.where(*_USED_UP, undo=True)):
        s = operator.reopen_undo(s, undo, now, resend_s)
    return s


def reported(s: Snapshot, child: RunRecord) -> Snapshot:
    """The parent has recorded this end: the ended child needs no wake-up any more. It may have moved since."""
    if s.run.wake_at is None or s.run.state_version != child.state_version:
        return s
    return s.with_run(wake_at=None, sends=0)
