"""Who waits for a step: the part of a join that it lies in, or the run; and how that is woken."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import wakeup
from celery_saga.core.focus import part_of, region_of
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus


def wake_owner(s: Snapshot, key: str, now: datetime, resend_s: float) -> Snapshot:
    """What waits for this step is to be decided: the part it lies in, or the run.

    A part that is being decided finds out by itself; one that is over, or lies in a parked run, is left alone.
    """
    region = region_of(key)
    if not region:
        return wakeup.wake(s, now, resend_s)
    part = s.step(part_of(region))
    if part is None or part.status is not StepStatus.WAITING or not s.run.status.is_forward:
        return s
    return wake_part(s, part, now, resend_s)


def wake_part(s: Snapshot, part: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """A waiting part is to be decided: it gets a wake-up of its own."""
    s = s.move_step(part.key, StepEvent.WOKEN)
    return s.with_step(wakeup.scheduled(s.steps[part.key], now, resend_s))


def is_abandoned(s: Snapshot, step: StepRecord) -> bool:
    """Nobody waits for this step any more: the join of its part is over, or the part it lies in is."""
    region = region_of(step.key)
    if not region or step.kind is StepKind.UNDO:
        return False
    waiting_key = step.join_key or part_of(region)
    waiting = s.step(waiting_key)
    return waiting is None or waiting.status.is_end
