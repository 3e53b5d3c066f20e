"""What follows every transition: the run's status, its next undo, its end, its new generation."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import admission
from celery_saga.core.attention import attended
from celery_saga.core.children import tell
from celery_saga.core.compensation import undo_next, undo_unknowns
from celery_saga.core.focus import Extent
from celery_saga.core.owners import wake_part
from celery_saga.core.parking import freeze, release
from celery_saga.core.pending import apply_pending, is_due
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.rollback import roll_on
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, RunStatus, StepStatus

_WORKING = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING)


def settle(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Bring a run to rest after an event: the last thing that every transition does."""
    s = _settled(s, now, resend_s)
    return attended(_with_status(admission.follow(s, now, resend_s) if s.run.admission else s), now)


def _settled(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    if is_due(s):
        s = apply_pending(s, now)
    if s.run.status.is_forward:
        s = undo_unknowns(s, now, resend_s)
        s = roll_on(s, now, resend_s)
    if s.run.status is RunStatus.COMPENSATING:
        s = undo_next(s, now, resend_s)
    if s.is_parked:
        return freeze(s)
    return tell(s, now, resend_s)


def _with_status(s: Snapshot) -> Snapshot:
    """Whether a run that goes forward works, or only waits."""
    if not s.run.status.is_forward or (s.run.status is RunStatus.QUEUED and not s.steps):
        return s
    if admission.is_gated(s.run):
        at_work = admission.is_running(s)
    else:
        here = any(True for _ in s.where(*_WORKING, need=Extent.PART))
        at_work = s.run.sends > 0 or here or s.is_busy_elsewhere
    event, status = (RunEvent.ADVANCED, RunStatus.RUNNING) if at_work else (RunEvent.WAITED, RunStatus.WAITING)
    return s if s.run.status is status else s.move_run(event)


def thaw(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """The reverse of `freeze`, for a resumed run: what was held may start, a back-off that is not over goes on."""
    for step in tuple(s.where(StepStatus.HELD)):
        # While compensating undo_next lets one go at a time, and a bounded join its next part when one is in.
        if s.run.status is not RunStatus.COMPENSATING and not _has_to_wait(s, step):
            s = release(s, step, now, resend_s)
    for step in tuple(s.where(StepStatus.WAITING)):
        if step.kind is StepKind.PART:
            s = wake_part(s, step, now, resend_s)  # what it waited for may have come meanwhile
        else:
            s = s.with_step(replace(step, wake_at=step.due_at))
    return s


def _has_to_wait(s: Snapshot, step: StepRecord) -> bool:
    join = s.steps.get(step.join_key or "")
    return join is not None and step.ordinal >= join.join_next
