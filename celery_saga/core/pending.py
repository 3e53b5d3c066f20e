"""What waited for a shield: the cancel, or the passed deadline, that is applied once none is held."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import failure
from celery_saga.core.forward import end_forward
from celery_saga.core.parking import park
from celery_saga.core.shield import pending_of
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus
from celery_saga.errors import DeadlineExceeded


def is_due(s: Snapshot) -> bool:
    """The run goes forward, holds no shield any more, and something has waited for that."""
    return s.run.pending_text is not None and s.run.shields == 0 and s.run.status.is_forward


def apply_pending(s: Snapshot, now: datetime) -> Snapshot:
    """End the forward part as it would have been ended when the run was shielded."""
    pending = pending_of(s.run)
    assert pending is not None
    s = s.with_run(pending_text=None)
    if pending.late is None:
        return end_forward(s, RunStatus.CANCELLED, skip_undos=pending.skip_undos)
    return late(s, now, pending.late)


def late(s: Snapshot, now: datetime, said: str) -> Snapshot:
    """The deadline has passed: the run fails, or after its pivot parks."""
    if s.run.pivoted:
        return park(s, now, "deadline", detail="it has passed its pivot", deadline_at=None)
    return end_forward(s, RunStatus.FAILED, error_text=failure.to_text(failure.capture(DeadlineExceeded(said))))
