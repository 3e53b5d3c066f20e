"""What a pass over the body decided, and how that is written: new steps, or the end of the forward part."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_saga.core import failure, wakeup
from celery_saga.core.cuts import goes_back, is_followed
from celery_saga.core.failure import Failure
from celery_saga.core.focus import part_of
from celery_saga.core.forward import complete, end_forward
from celery_saga.core.joins import ended, fold
from celery_saga.core.orders import RunSpec
from celery_saga.core.parking import park
from celery_saga.core.pending import is_due
from celery_saga.core.pivot import passed
from celery_saga.core.placing import Order, place
from celery_saga.core.records import Action, StepKind
from celery_saga.core.renewing import Renewed, renew
from celery_saga.core.replacing import replace
from celery_saga.core.restart import execute_again
from celery_saga.core.retry import next_delay_s
from celery_saga.core.shield import counted
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepEvent, StepStatus
from celery_saga.core.waits import deliver


@dataclass(frozen=True, slots=True)
class Completed:
    """The body returned; codec text of its result."""

    result_text: str


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception left the body.

    `declared`: it ends the forward part (the engine raised it, or its class is in `errors=`); otherwise it is a bug.
    `step`: the key of the step whose error it is.
    """

    error: Failure
    declared: bool
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The body no longer asks for what is recorded; both sides are in the error."""

    error: Failure


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The stored input cannot be decoded by this code; the run parks until it can."""

    error: Failure


End = Completed | Raised | Mismatch | Unreadable | Renewed


@dataclass(frozen=True, slots=True)
class Decision:
    """New steps in the order in which the body asked for them, and the end of the body if it got there.

    `region` is that of the part whose function was decided, and whose end `end` is; empty for the body itself.
    `folds` are results of joins that are over, by key.
    """

    orders: tuple[Order, ...] = ()
    end: End | None = None
    region: str = ""
    folds: tuple[tuple[str, str], ...] = ()


def apply(
    s: Snapshot, decision: Decision, now: datetime, resend_s: float, *, jitter: float = 0.0, at_once: bool = False
) -> Snapshot:
    """Write a decision taken on a snapshot of this very version: its steps, and what its end means.

    The run's wake-up is reset first: from here on it is decided, unless a wait that is ordered here fires at once.
    """
    s = wakeup.asleep(s, stalls=0, claim_token=None, lease_until=None, started_at=s.run.started_at or now)
    s = _ordered(s, decision, now, resend_s)
    end = None if is_due(s) else decision.end
    if isinstance(end, Completed):
        return complete(s, now, end.result_text, resend_s)
    if isinstance(end, Renewed):
        return renew(s, end, now, resend_s)
    if isinstance(end, Mismatch | Unreadable):
        return _unfit(s, end, now)
    if isinstance(end, Raised):
        return _raised(s, end, now, resend_s, jitter, at_once)
    return s


def apply_to_part(s: Snapshot, decision: Decision, now: datetime, resend_s: float) -> Snapshot:
    """Write what a pass over one part decided: its steps, and its end. The run's own wake-up stays as it is."""
    key = part_of(decision.region)
    if s.steps[key].status is StepStatus.RUNNING:
        fresh: dict[str, Any] = {"claim_token": None, "wake_at": None, "lease_until": None, "due_at": None}
        s = s.move_step(key, StepEvent.DECIDED, **fresh, stalls=0, failures=0)
    s = _ordered(s, decision, now, resend_s)
    end = None if is_due(s) else decision.end
    over: dict[str, Any] = {"wake_at": None, "due_at": None, "sends": 0, "ended_at": now}
    if isinstance(end, Completed):
        s = s.move_step(key, StepEvent.FIRED, result_text=end.result_text, **over)
        return ended(s, key, now, resend_s)
    if isinstance(end, Mismatch | Unreadable):
        return _unfit(s, end, now)
    if isinstance(end, Raised):
        error_text = failure.to_text(end.error)
        if not end.declared and (s.run.pivoted or RunSpec.from_text(s.run.spec_text).on_bug == "suspend"):
            return park(s, now, "body_error", detail=_line(end.error), error_text=error_text)
        s = s.move_step(key, StepEvent.FAILED, error_text=error_text, **over)
        return ended(s, key, now, resend_s)
    return s


def _ordered(s: Snapshot, decision: Decision, now: datetime, resend_s: float) -> Snapshot:
    for key, result_text in decision.folds:
        s = fold(s, key, result_text)
    s = place(s, decision.orders, now, resend_s)
    for order in decision.orders:
        s = passed(s, order.key) if order.kind is StepKind.MARK else s
    return deliver(counted(s, decision.orders), now, resend_s)


def _unfit(s: Snapshot, end: Mismatch | Unreadable, now: datetime) -> Snapshot:
    """The code at hand cannot go on with what is recorded: the run parks until other code can."""
    if isinstance(end, Mismatch):
        return park(s, now, "non_determinism", detail=end.error.message, error_text=failure.to_text(end.error))
    return park(s, now, "input", detail=_line(end.error), error_text=failure.to_text(end.error))


def _raised(s: Snapshot, end: Raised, now: datetime, resend_s: float, jitter: float, at_once: bool) -> Snapshot:
    spec = RunSpec.from_text(s.run.spec_text)
    error_text = failure.to_text(end.error)
    if end.step is not None and goes_back(s, end.step):
        end = replace(end, step=None)  # the error is an old one: nothing before the pivot is done again
    again_s = None if spec.retry is None else next_delay_s(spec.retry, s.run.failures + 1, end.error, jitter)
    if again_s is not None:
        return _body_again(s, end, now, resend_s, 0.0 if at_once else again_s)
    if not end.declared and (s.run.pivoted or spec.on_bug == "suspend"):
        return park(s, now, "body_error", detail=_line(end.error), error_text=error_text)
    if s.run.pivoted or spec.on_failure == "suspend":
        reason, failed = "pivot" if s.run.pivoted else "on_failure", {"error_text": error_text, "error_step": end.step}
        return park(s, now, reason, detail=_line(end.error), step=end.step, **failed)
    return end_forward(s, RunStatus.FAILED, error_text=error_text, error_step=end.step)


def _body_again(s: Snapshot, end: Raised, now: datetime, resend_s: float, again_s: float) -> Snapshot:
    s = s.with_run(failures=s.run.failures + 1, not_before_at=wakeup.after(now, again_s) if again_s > 0 else None)
    s = s.note(now, Action.RETRY, "run", step=end.step, attempt=s.run.failures, detail=_line(end.error))
    s = wakeup.wake(s, now, resend_s)
    if end.step is None or is_followed(s, end.step):
        return s
    return execute_again(s, end.step, now, resend_s, delay_s=again_s)


def _line(error: Failure) -> str:
    return f"{error.type_name.rpartition('.')[2]}: {error.message}"
