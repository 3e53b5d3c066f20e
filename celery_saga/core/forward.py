"""The end of the forward part: what has not started is cancelled, what runs is told, then undos follow."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from celery_saga.core.children import reports
from celery_saga.core.focus import Extent
from celery_saga.core.joins import cancel
from celery_saga.core.records import Action, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, RunStatus, StepStatus


def end_forward(
    s: Snapshot,
    outcome: RunStatus,
    *,
    error_text: str | None = None,
    error_step: str | None = None,
    **changes: Any,
) -> Snapshot:
    """Cancel what has not started and begin to compensate.

    Args:
        outcome: what the run becomes once everything is undone: completed, failed or cancelled.
        error_text: why, as failure text; kept where the run has one already.
        error_step: the step whose error it was.
    """
    s.need(Extent.LIVE)
    keeps_rollbacks = outcome is RunStatus.COMPLETED
    s = cancel(s, (x for x in s.steps.values() if not (keeps_rollbacks and x.kind is StepKind.ROLLBACK)))
    return s.move_run(
        RunEvent.FORWARD_ENDED,
        outcome=outcome,
        error_text=error_text or s.run.error_text,
        error_step=error_step or s.run.error_step,
        reason=None,
        pivoted=s.run.pivoted and outcome is RunStatus.COMPLETED,
        shields=0,
        pending_text=None,
        wake_at=None,
        not_before_at=None,
        sends=0,
        claim_token=None,
        lease_until=None,
        **changes,
    )


def complete(s: Snapshot, now: datetime, result_text: str, resend_s: float) -> Snapshot:
    """The body has returned: the run completes, once no attempt of it runs any more."""
    if any(True for _ in s.where(StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING, StepStatus.WAITING)):
        return end_forward(s, RunStatus.COMPLETED, result_text=result_text, skip_undos=True)
    s = s.move_run(
        RunEvent.COMPLETED,
        outcome=RunStatus.COMPLETED,
        result_text=result_text,
        ended_at=now,
        not_before_at=None,
        claim_token=None,
        lease_until=None,
        reason=None,
        error_text=None,
        error_step=None,
        **reports(s.run, now, resend_s),
    )
    return s.note(now, Action.END, "run", detail=str(s.run.status))
