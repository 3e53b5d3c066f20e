"""How an attempt of a step ends: checked in by the one who claimed it, or ended unseen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery_saga.core import failure, joins, pivot, wakeup
from celery_saga.core.failure import Failure
from celery_saga.core.orders import UNDO_RETRY, StepSpec
from celery_saga.core.owners import is_abandoned
from celery_saga.core.parking import park
from celery_saga.core.records import Action, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.retry import next_delay_s
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus, next_step_status
from celery_saga.errors import SagaError, StepLost, StepTimeout


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The attempt returned; `result_text` is codec text. `progress_text`: what is not stored yet; None: nothing."""

    result_text: str
    progress_text: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt raised. `delay_s` None: for good; else the next attempt is due that many seconds from now.

    `maybe`: its effect may exist all the same (the result could not be stored, a limit ended it). `progress_text`: what
    is not stored yet; None: nothing. `is_put_back`: it has found a limit and done nothing; `delay_s` is given, and
    neither an attempt nor a failure is counted.
    """

    failure: Failure
    delay_s: float | None = None
    maybe: bool = False
    progress_text: str | None = None
    is_put_back: bool = False


Outcome = Succeeded | Failed


class Fenced(Exception):  # noqa: N818 - not an error of the user's: the claim belongs to somebody else
    """The claim is no longer the writer's; nothing was written."""


def delay_s(step: StepRecord, error: Failure, *, own: float | None, jitter: float) -> float | None:
    """When the next attempt of a failed attempt is due: by the step's policy, else by what the task asked for itself.

    Args:
        step: as claimed, before this failure is counted.
        own: seconds that the task's own retry policy asked for; None: it gave up or has none.
        jitter: in [0, 1).
    Returns:
        Seconds from now; None: no further attempt.
    """
    spec = StepSpec.from_text(step.spec_text)
    policy = spec.retry
    if policy is None and step.kind is StepKind.UNDO:
        policy = UNDO_RETRY.to_plain()
    if policy is None:
        return None if "celery_saga.errors.NonRetryable" in error.type_names else own
    return next_delay_s(policy, step.failures + 1, error, jitter)


def may_claim_asynchronously(step: StepRecord) -> bool:
    """The claim may be lost in a crash of the database without harm: nothing would have to be undone.

    A lost claim of a step with an undo would hide an effect: the step, cancelled as never started, would not be undone.
    """
    return step.kind in (StepKind.STEP, StepKind.PART) and StepSpec.from_text(step.spec_text).undo is None


def check_in(s: Snapshot, key: str, token: str, outcome: Outcome, now: datetime, resend_s: float) -> Snapshot:
    """Checkpoint the end of the attempt that holds `token`.

    Returns:
        The same snapshot where this very check-in has landed already.

    Raises:
        Fenced: the attempt's lease has ended, or the step was taken away by a restart.
    """
    step = s.steps.get(key)
    if step is None or step.claim_token != token:
        raise Fenced(key)
    if step.status is not StepStatus.RUNNING:
        return s
    if outcome.progress_text is not None:
        step = replace(step, progress_text=outcome.progress_text, progress_at=now)
        s = s.with_step(step)
    if isinstance(outcome, Succeeded):
        s = s.move_step(key, StepEvent.SUCCEEDED, **_of_success(outcome, now))
        s = pivot.passed(s.note(now, Action.OK, str(step.kind), step=key, attempt=step.attempt), key)
    elif outcome.is_put_back:
        s = _put_back(s, step, outcome.delay_s or 0.0, now, resend_s)
    else:
        s = _fail(s, step, outcome, Action.FAIL, now, resend_s)
    return joins.ended(s, key, now, resend_s) if s.steps[key].status.is_end else s


def succeeded(step: StepRecord, outcome: Succeeded, now: datetime, seq: int) -> StepRecord:
    """The step of a running attempt as the check-in of this outcome will leave it.

    Args:
        seq: the run's next, for a step that has none.
    """
    status = next_step_status(step.run_id, step.key, step.status, StepEvent.SUCCEEDED)
    seq = seq if step.seq is None else step.seq
    return replace(step, status=status, seq=seq, **_of_success(outcome, now))


def _of_success(outcome: Succeeded, now: datetime) -> dict[str, Any]:
    none: dict[str, Any] = dict.fromkeys(("error_text", "wake_at", "lease_until", "due_at"))
    return {**none, "result_text": outcome.result_text, "maybe": False, "ended_at": now}


def _put_back(s: Snapshot, step: StepRecord, delay_s: float, now: datetime, resend_s: float) -> Snapshot:
    """As if this attempt had not been: the step is due later, or cancelled where nobody waits for it any more."""
    if may_start(s, step):
        s = s.move_step(step.key, StepEvent.RETRIED, attempt=step.attempt - 1)
        return s.with_step(wakeup.scheduled(s.steps[step.key], now, resend_s, delay_s))
    over: dict[str, Any] = {"wake_at": None, "lease_until": None, "due_at": None}
    return s.move_step(step.key, StepEvent.CANCELLED, **over, ended_at=now)


def _fail(s: Snapshot, step: StepRecord, outcome: Failed, action: Action, now: datetime, resend_s: float) -> Snapshot:
    error = outcome.failure
    failed = replace(
        step, failures=step.failures + 1, error_text=failure.to_text(error), maybe=step.maybe or outcome.maybe
    )
    s = s.with_step(failed)
    again_s = pivot.again_s(s, step, error) if outcome.delay_s is None else outcome.delay_s
    if again_s is not None and may_start(s, step):
        s = s.move_step(step.key, StepEvent.RETRIED)
        s = s.with_step(wakeup.scheduled(s.steps[step.key], now, resend_s, again_s))
    else:
        s = s.move_step(step.key, StepEvent.FAILED, wake_at=None, lease_until=None, due_at=None, ended_at=now)
    detail = f"{error.type_name.rpartition('.')[2]}: {error.message}"[:500]
    return s.note(now, action, str(step.kind), step=step.key, attempt=step.attempt, detail=detail)


def may_start(s: Snapshot, step: StepRecord) -> bool:
    """Another attempt may start: of an undo or a chord always, of another step while somebody waits for it."""
    return step.kind in (StepKind.UNDO, StepKind.CHORD) or (s.run.outcome is None and not is_abandoned(s, step))


def lose(
    s: Snapshot,
    key: str,
    token: str,
    now: datetime,
    *,
    max_stalls: int,
    resend_s: float,
    jitter: float,
    timeout_s: float | None = None,
    ended: bool = False,
    limit_s: float | None = None,
) -> Snapshot:
    """End an attempt whose lease is over, or whose process is known to have died (`ended`).

    Counted as a stall, or as a failure by time-out when the step's time was up. The same snapshot when the attempt is
    not there any more or its lease was renewed.

    Args:
        timeout_s: of steps that have none of their own, in seconds.
        ended: the attempt's process is known to be dead; else only an expired lease counts.
        limit_s: a time limit of so many seconds has killed it.
    """
    step = s.steps.get(key)
    if step is None or step.status is not StepStatus.RUNNING or step.claim_token != token:
        return s
    if not ended and step.lease_until is not None and step.lease_until > now:
        return s
    step = replace(step, claim_token=None, owner=None)
    own_s = StepSpec.from_text(step.spec_text).timeout_s
    timeout_s = None if step.kind is StepKind.PART else timeout_s if own_s is None else own_s
    if limit_s is not None or is_over_time(step, now, timeout_s):
        s = _time_out(s.with_step(step), step, now, resend_s, jitter, limit_s or timeout_s)
    else:
        s = _stall(s, step, now, max_stalls, resend_s)
    return joins.ended(s, key, now, resend_s) if s.steps[key].status.is_end else s


def is_over_time(step: StepRecord, now: datetime, timeout_s: float | None) -> bool:
    """Its last attempt has had as long as its time-out; never without one."""
    return (
        timeout_s is not None and step.started_at is not None and step.started_at + timedelta(seconds=timeout_s) <= now
    )


def _time_out(
    s: Snapshot, step: StepRecord, now: datetime, resend_s: float, jitter: float, timeout_s: float | None
) -> Snapshot:
    error = failure.capture(
        StepTimeout(f"step {step.key!r}: attempt {step.attempt} took longer than its time-out of {timeout_s:g} s")
    )
    again_s = delay_s(step, error, own=None, jitter=jitter)
    again_s = pivot.again_s(s, step, error, jitter) if again_s is None else again_s
    outcome = Failed(error, again_s, maybe=not _leaves_nothing(step))
    return _fail(s, step, outcome, Action.TIMEOUT, now, resend_s)


def _leaves_nothing(step: StepRecord) -> bool:
    """Whoever has lost the claim cannot commit any more what the task wrote: there is no doubt about its effect."""
    return StepSpec.from_text(step.spec_text).transactional


def _stall(s: Snapshot, step: StepRecord, now: datetime, max_stalls: int, resend_s: float) -> Snapshot:
    stalled = replace(step, stalls=step.stalls + 1, maybe=step.maybe or not _leaves_nothing(step))
    s = s.with_step(stalled)
    if stalled.stalls <= max_stalls and may_start(s, step):
        s = s.move_step(step.key, StepEvent.STALLED)
        s = s.with_step(wakeup.scheduled(s.steps[step.key], now, resend_s))
    elif may_start(s, step) and (step.kind is StepKind.PART or (pivot.is_passed(s) and step.kind is StepKind.STEP)):
        what = "part" if step.kind is StepKind.PART else "step"
        hung = SagaError(
            f"run {s.run.id!r}: {what} {step.key!r} killed or hung its process {stalled.stalls} times; nothing was "
            "undone. Fix it, then resume the run."
        )
        s = s.move_step(step.key, StepEvent.STALLED, stalls=0)
        s = park(s, now, "stalled", detail=str(hung), error_text=failure.to_text(failure.capture(hung)))
    else:
        lost = failure.capture(
            StepLost(
                f"step {step.key!r}: {stalled.stalls} attempts ended unseen; "
                + ("its effect may exist" if stalled.maybe else "nothing of them is left")
            )
        )
        s = s.move_step(
            step.key,
            StepEvent.LOST,
            error_text=failure.to_text(lost),
            wake_at=None,
            lease_until=None,
            due_at=None,
            ended_at=now,
        )
    return s.note(now, Action.LOST, str(step.kind), step=step.key, attempt=step.attempt)
