"""Taking a run out of work until a person acts, and letting what was held start again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from celery_saga.core import children, failure, wakeup
from celery_saga.core.records import Action, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, StepEvent, StepStatus
from celery_saga.core.unreadable import InClear
from celery_saga.errors import PayloadUnreadable


def park(s: Snapshot, now: datetime, reason: str, *, detail: str, step: str | None = None, **changes: Any) -> Snapshot:
    """Take the run out of work until a person acts; running attempts end and are recorded, nothing else starts."""
    s = s.move_run(RunEvent.PARKED, reason=reason, wake_at=None, sends=0, claim_token=None, lease_until=None, **changes)
    return s.note(now, Action.PARK, "run", step=step, detail=f"{reason}: {detail}"[:500])


def unreadable(s: Snapshot, now: datetime, error: PayloadUnreadable) -> Snapshot:
    """Park a run of which something cannot be read; the same snapshot where it is parked or has ended.

    What cannot be read stays as it is stored, and an attempt that runs meanwhile ends with its lease.
    """
    if not s.is_live or s.is_parked:
        return s
    told = s.run.error_text
    if s.run.outcome is None and told is None:
        told = InClear(failure.to_text(failure.capture(error)))
    since = s.run.attention_at or now  # nothing is settled after this, which would say so
    s = freeze(park(s, now, "unreadable", detail=str(error), error_text=told, attention_at=since))
    return replace(s, history=tuple(replace(row, detail=InClear(row.detail or "")) for row in s.history))


def release(s: Snapshot, step: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """Let a held step start; a back-off that is not over goes on."""
    if children.is_of_child(step):
        return children.release(s, step, now, resend_s)
    s = s.move_step(step.key, StepEvent.RELEASED)
    left_s = 0.0 if step.due_at is None else (step.due_at - now).total_seconds()
    return s.with_step(wakeup.scheduled(s.steps[step.key], now, resend_s, max(0.0, left_s)))


def freeze(s: Snapshot) -> Snapshot:
    """A parked run starts nothing and nothing wakes it: steps are held, waits and timers lose their wake-up."""
    for step in tuple(s.where(StepStatus.SCHEDULED)):
        s = s.move_step(step.key, StepEvent.WITHHELD, wake_at=None)
    for step in tuple(s.where(StepStatus.WAITING)):
        if step.wake_at is not None:
            s = s.with_step(replace(step, wake_at=None))
    return s
