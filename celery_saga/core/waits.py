"""Waits and timers: a wait is a join whose header is a signal; it fires once, where it takes its signal."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import chords, failure, headers, joins
from celery_saga.core.focus import Extent
from celery_saga.core.orders import StepSpec
from celery_saga.core.owners import wake_owner
from celery_saga.core.pending import late
from celery_saga.core.records import Action, SignalRecord, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.shield import Pending, is_shielded
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.errors import SignalTimeout

_TIMED = (StepKind.TIMER, StepKind.SIGNAL)


def tick(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """What the clock alone brings: the run's deadline, time-outs of waits, ends of sleeps. Nothing while parked."""
    if not s.run.status.is_forward:
        return s
    if s.run.deadline_at is not None and s.run.deadline_at <= now:
        said = f"run {s.run.id!r}: deadline {s.run.deadline_at.isoformat()} has passed"
        s = s.note(now, Action.TIMEOUT, "run", detail=said)
        if is_shielded(s):
            return s.with_run(deadline_at=None, pending_text=s.run.pending_text or Pending(late=said).to_text())
        return late(s, now, said)
    for step in tuple(s.where(StepStatus.WAITING, need=Extent.PART)):
        # A part has no time-out: what it keeps is the end of a back-off before its last attempt.
        if step.kind in _TIMED and step.due_at is not None and step.due_at <= now:
            s = _due(s, step, now, resend_s)
    return s


def next_tick(s: Snapshot) -> datetime | None:
    """When `tick` will bring something next, of what is here; None: never."""
    if not s.run.status.is_forward:
        return None
    waiting = s.where(StepStatus.WAITING, need=Extent.PART)
    due = [step.due_at for step in waiting if step.kind in _TIMED and step.due_at is not None]
    return min(due if s.run.deadline_at is None else [*due, s.run.deadline_at], default=None)


def _due(s: Snapshot, step: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    if step.kind is StepKind.TIMER:
        s = s.move_step(step.key, StepEvent.FIRED, result_text="null", wake_at=None, ended_at=now)
        s = s.note(now, Action.OK, "timer", step=step.key)
        return wake_owner(s, step.key, now, resend_s)
    spec = StepSpec.from_text(step.spec_text)
    if spec.has_default:
        s = s.move_step(step.key, StepEvent.FIRED, result_text=spec.default_text, wake_at=None, ended_at=now)
    else:
        missed = SignalTimeout(f"run {s.run.id!r}: no signal {step.task!r} within the time-out of wait {step.key!r}")
        error_text = failure.to_text(failure.capture(missed))
        s = s.move_step(step.key, StepEvent.TIMED_OUT, error_text=error_text, wake_at=None, ended_at=now)
    s = s.note(now, Action.TIMEOUT, "signal", step=step.key, detail=step.task)
    return wake_owner(s, step.key, now, resend_s)


def deliver(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Let open waits take what is in the inbox: oldest wait first, oldest signal first; the others are kept.

    Looked-at signals lose their own wake-up, except while the run is parked: resuming looks again.
    """
    # Where nobody has looked at a signal yet, a wait that was not loaded may be the older one.
    need = Extent.LIVE if any(_is_new(x) for x in s.inbox) else Extent.PART
    s.need(need)
    s = chords.observe(s, now, resend_s)
    if s.run.status.is_forward:
        for step in tuple(s.where(StepStatus.WAITING, need=need)):
            # Another wait that fired may have won the race of which this one was an arm.
            if step.kind is StepKind.SIGNAL and s.steps[step.key].status is StepStatus.WAITING:
                s = _take(s, step, now, resend_s)
    if any(_is_new(x) for x in s.inbox):
        looked_at = (replace(x, wake_at=None, expires_at=None) if _is_new(x) else x for x in s.inbox)
        s = s.with_inbox(tuple(looked_at))
    return s


def _is_new(signal: SignalRecord) -> bool:
    return signal.wake_at is not None and not signal.is_request


def _take(s: Snapshot, step: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """Let the wait fire where its header is complete: all that it takes it takes here, or nothing."""
    taken = headers.completing(step, s.inbox)
    if not taken:
        return s
    s = s.with_inbox(tuple(_taken(s, x, step) if x in taken else x for x in s.inbox))
    if taken[0].error_text is None:
        text = headers.result_text(step, taken)
        s = s.move_step(step.key, StepEvent.FIRED, result_text=text, wake_at=None, ended_at=now)
    else:
        s = s.move_step(step.key, StepEvent.FAILED, error_text=taken[0].error_text, wake_at=None, ended_at=now)
    for signal in taken:
        s = s.note(now, Action.SIGNAL, "signal", step=step.key, detail=f"{signal.name} {signal.signal_id}")
    return joins.ended(s, step.key, now, resend_s)


def _taken(s: Snapshot, signal: SignalRecord, by: StepRecord) -> SignalRecord:
    return replace(signal, taken_by=by.key, taken_generation=s.run.generation, wake_at=None, expires_at=None)


def is_over(s: Snapshot, name: str) -> bool:
    """The last wait for `name` timed out, and the run has gone on since to wait for another signal."""
    waits = [x for x in s.steps.values() if x.kind is StepKind.SIGNAL and name in headers.names_of(x)]
    if not waits or s.run.sends > 0:
        return False
    last = waits[-1]
    timed_out = last.status is StepStatus.FAILED or (last.status is StepStatus.DONE and not _was_taken(last))
    return timed_out and any(
        x.kind is StepKind.SIGNAL and name not in headers.names_of(x) for x in s.where(StepStatus.WAITING)
    )


def _was_taken(step: StepRecord) -> bool:
    return step.due_at is None or (step.ended_at is not None and step.ended_at < step.due_at)


def unseen(signal: SignalRecord) -> bool:
    """Nobody has looked at this signal under the run's lock."""
    return signal.taken_by is None and signal.wake_at is not None
