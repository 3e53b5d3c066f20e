"""What a person may do to a run; every action is written into its history with who and why."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import failure, pivot, wakeup
from celery_saga.core.advance import thaw
from celery_saga.core.children import is_of_child
from celery_saga.core.cuts import cut_from, cut_of_retry, is_reopenable
from celery_saga.core.forward import end_forward
from celery_saga.core.parking import release
from celery_saga.core.records import Action, StepRecord, undo_key
from celery_saga.core.refusals import not_allowed
from celery_saga.core.replacing import replace
from celery_saga.core.restart import is_restartable, reopen, restart
from celery_saga.core.shield import Pending, is_shielded, pending_of
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, RunStatus, StepEvent, StepStatus
from celery_saga.core.undo import needs_undo, undo_record
from celery_saga.core.waits import deliver
from celery_saga.errors import SagaError

_UNDO_OVER = (StepStatus.FAILED, StepStatus.LOST)


def cancel(s: Snapshot, now: datetime, *, compensate: bool, reason: str, by: str | None) -> Snapshot:
    """End the forward part as cancelled, inside a shield once that is left.

    The same snapshot where it has ended already, is cancelled, or the pivot is passed.
    """
    if not s.is_live or (s.run.outcome is not None and not s.run.restart) or pivot.is_passed(s):
        return s
    detail = None if compensate else "undos are skipped"
    if is_shielded(s):
        pending = pending_of(s.run)
        if pending is not None and pending.late is None:
            return s
        s = s.note(now, Action.CANCEL, "run", detail=detail or "once its shield is left", by=by, reason=reason or None)
        return s.with_run(pending_text=Pending(skip_undos=not compensate).to_text())
    s = s.note(now, Action.CANCEL, "run", detail=detail, by=by, reason=reason or None)
    if s.run.status is RunStatus.COMPENSATING:  # on its way to start over: it ends instead
        return s.with_run(outcome=RunStatus.CANCELLED, restart=False, cut_text=None, skip_undos=not compensate)
    s = s.with_run(restart=False, cut_text=None)
    return end_forward(s, RunStatus.CANCELLED, skip_undos=not compensate)


def was_cancelled(s: Snapshot) -> bool:
    """The run is cancelled, or will be once its undos are through."""
    pending = pending_of(s.run)
    will_be = pending is not None and pending.late is None
    return will_be or (s.run.outcome is RunStatus.CANCELLED and not s.run.restart)


def suspend(s: Snapshot, now: datetime, *, reason: str, by: str | None) -> Snapshot:
    """Park the run. Attempts that run end and are recorded; nothing else starts, no time or signal wakes it."""
    if s.is_parked or not s.is_live:
        raise not_allowed(s, "suspend", "it is parked already" if s.is_parked else "it has ended")
    s = s.note(now, Action.SUSPEND, "run", by=by, reason=reason or None)
    return s.move_run(RunEvent.PARKED, reason="operator", wake_at=None, sends=0, claim_token=None, lease_until=None)


def resume(s: Snapshot, now: datetime, resend_s: float, *, reason: str, by: str | None) -> Snapshot:
    """Take a parked run back into work, where it was: forward, or in its undos."""
    if not s.is_parked:
        raise not_allowed(s, "resume", "only a suspended run can be resumed")
    parked_for = s.run.reason
    if parked_for == "undo_unknown":
        why = (
            "nobody knows whether a step has happened, and it would park again: retry_undo with the result of the step"
        )
        raise not_allowed(s, "resume", f"{why}, or resolve_undo, takes it on")
    s = s.note(now, Action.RESUME, "run", by=by, reason=reason or None)
    if s.run.outcome is not None or s.run.restart:
        s = thaw(s.move_run(RunEvent.UNDO_REOPENED, reason=None), now, resend_s)
        if parked_for == "undo_failed":
            for step in tuple(s.where(*_UNDO_OVER, undo=True)):
                s = reopen_undo(s, step, now, resend_s)
        return s
    failed = s.steps.get(s.run.error_step or "")
    again = parked_for in ("on_failure", "pivot") and failed is not None and failed.status in _UNDO_OVER
    if again and failed is not None and not is_reopenable(s, failed.key):
        return thaw(restart(s, now, resend_s, cut=cut_from(s, failed.key)), now, resend_s)
    s = s.move_run(RunEvent.RESUMED, reason=None, error_text=None, error_step=None, stalls=0, failures=0)
    s = deliver(thaw(s, now, resend_s), now, resend_s)
    if again and failed is not None:
        s = reopen(s, failed.key, now, resend_s)
    if parked_for == "undo_failed":
        for step in tuple(s.where(*_UNDO_OVER, undo=True)):
            s = reopen_undo(s, step, now, resend_s)
    return wakeup.wake(s, now, resend_s)


def compensate(s: Snapshot, now: datetime, *, reason: str, by: str | None) -> Snapshot:
    """Undo what a parked, a completed, or a without-undos cancelled run has done."""
    run = s.run
    s = s.note(now, Action.COMPENSATE, "run", by=by, reason=reason or None)
    if s.is_parked and run.outcome is None:
        return end_forward(
            s, RunStatus.FAILED, error_text=run.error_text or _by_hand(s, reason), error_step=run.error_step
        )
    if run.status is RunStatus.COMPLETED:
        return end_forward(s, RunStatus.CANCELLED, ended_at=None)
    if run.status is RunStatus.CANCELLED and run.skip_undos:
        return s.move_run(RunEvent.UNDO_REOPENED, skip_undos=False, ended_at=None)
    raise not_allowed(
        s, "compensate", "only a suspended, a completed, or a run cancelled without undos can be compensated"
    )


def _by_hand(s: Snapshot, reason: str) -> str:
    asked = SagaError(f"run {s.run.id!r}: a person had it undone" + (f": {reason}" if reason else ""))
    return failure.to_text(failure.capture(asked))


def retry(
    s: Snapshot, now: datetime, resend_s: float, *, from_step: str | None, reason: str, by: str | None
) -> Snapshot:
    """Start a failed or cancelled run over from the earliest of the named, the failed and the first undone step."""
    if not is_restartable(s.run.status):
        raise not_allowed(s, "retry", "only a failed or cancelled run can be retried")
    if s.run.parent_id is not None:
        raise not_allowed(s, "retry", f"it is a child, and its parent knows how it ended: retry run {s.run.parent_id}")
    cut = cut_of_retry(s, from_step)
    s = s.note(now, Action.RETRY, "run", step=from_step, by=by, reason=reason or None)
    return restart(s, now, resend_s, cut=cut)


def restart_failed(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Start a failed or cancelled run over from its first step, because it was started again with that wish."""
    if not is_restartable(s.run.status) or s.run.parent_id is not None:
        return s
    return restart(s.note(now, Action.RETRY, "run", detail="restart_failed"), now, resend_s, cut=s.steps)


def retry_undo(
    s: Snapshot,
    key: str,
    now: datetime,
    resend_s: float,
    *,
    args_text: str | None,
    reason: str,
    by: str | None,
    detail: str | None = None,
) -> Snapshot:
    """Execute an undo again now, with other arguments where given; key and token of the undo stay the same.

    One that is used up, waits for its next attempt, or was not ordered because the step's outcome is unknown: a person
    gives the result that it needs.
    """
    s = _with_unordered(s, key, now)
    undo = _undo(s, key, "retry_undo")
    if args_text is not None and is_of_child(undo):
        raise not_allowed(s, f"retry_undo({key!r})", f"it is undone by run {undo.task_id}: repair the undos of that")
    if why := _why_not_again(undo, args_text):
        raise not_allowed(s, f"retry_undo({key!r})", why)
    if args_text is not None:
        undo = replace(undo, args_text=args_text)
        s = s.with_step(undo)
    s = s.note(now, Action.RETRY_UNDO, "undo", step=undo.key, detail=detail, by=by, reason=reason or None)
    if undo.status in _UNDO_OVER:
        return reopen_undo(reopen_run(s, now, resend_s), undo, now, resend_s)
    undo = replace(undo, failures=0, stalls=0, due_at=None)
    return s.with_step(wakeup.scheduled(undo, now, resend_s) if undo.status is StepStatus.SCHEDULED else undo)


def _why_not_again(undo: StepRecord, args_text: str | None) -> str | None:
    """Why an undo is not executed again now; None: it is."""
    if undo.status in _UNDO_OVER:
        return None
    if undo.status not in (StepStatus.HELD, StepStatus.SCHEDULED):
        return f"its undo is {undo.status.value}"
    is_fresh = undo.failures + undo.stalls == 0 and undo.due_at is None
    same = args_text is None or args_text == undo.args_text
    return "its undo is about to be executed already" if is_fresh and same else None


def resolve_undo(
    s: Snapshot, key: str, now: datetime, resend_s: float, *, outcome: str, reason: str, by: str | None
) -> Snapshot:
    """Close an undo by hand: `done` (a person did it elsewhere) or `skipped` (it shall not be done)."""
    if outcome not in ("done", "skipped"):
        raise not_allowed(s, f"resolve_undo({key!r})", f"outcome must be 'done' or 'skipped', not {outcome!r}")
    s = _with_unordered(s, key, now)
    undo = _undo(s, key, "resolve_undo")
    if undo.status not in (*_UNDO_OVER, StepStatus.HELD, StepStatus.SCHEDULED):
        raise not_allowed(s, f"resolve_undo({key!r})", f"its undo is {undo.status.value}")
    s = s.note(now, Action.RESOLVE_UNDO, "undo", step=undo.key, detail=outcome, by=by, reason=reason or None)
    event = StepEvent.RESOLVED if outcome == "done" else StepEvent.SKIPPED
    s = s.move_step(undo.key, event, wake_at=None, due_at=None, ended_at=now, claim_token=None)
    return reopen_run(s, now, resend_s)


def _with_unordered(s: Snapshot, key: str, now: datetime) -> Snapshot:
    """With the undo that could not be ordered, because nobody knew the outcome: a person may decide it."""
    step = s.steps.get(key)
    if step is None or not s.is_parked or s.run.reason != "undo_unknown" or not needs_undo(s, step):
        return s
    return s.with_step(replace(undo_record(s, step, now), status=StepStatus.FAILED))


def reopen_undo(s: Snapshot, undo: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """A used-up undo is scheduled again with fresh counts; that of a child, which undoes itself, is asked for again."""
    fresh: dict[str, object] = dict.fromkeys(("error_text", "ended_at", "seq", "claim_token"))
    s = s.move_step(undo.key, StepEvent.REOPENED, failures=0, stalls=0, **fresh)
    others = (StepStatus.SCHEDULED, StepStatus.RUNNING, StepStatus.HELD, StepStatus.WAITING)
    if is_of_child(undo):
        s = s.move_step(undo.key, StepEvent.WITHHELD, wake_at=None, due_at=None)
        is_free = not any(x.key != undo.key for x in s.where(*others, undo=True))
        return release(s, s.steps[undo.key], now, resend_s) if is_free else s
    if any(x.key != undo.key for x in s.where(*others, undo=True)):
        return s.move_step(undo.key, StepEvent.WITHHELD, wake_at=None, due_at=None)  # one at a time
    return s.with_step(wakeup.scheduled(s.steps[undo.key], now, resend_s))


def reopen_run(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Back to work where only this undo kept the run from it; a run that a person suspended stays so."""
    if s.is_parked and s.run.reason not in ("undo_failed", "undo_unknown"):
        return s
    if s.is_parked and s.run.outcome is None and not s.run.restart:
        s = s.move_run(RunEvent.RESUMED, reason=None)
        return wakeup.wake(deliver(thaw(s, now, resend_s), now, resend_s), now, resend_s)
    if s.is_parked or s.run.status.is_end:
        return s.move_run(RunEvent.UNDO_REOPENED, reason=None, ended_at=None)
    return s


def _undo(s: Snapshot, key: str, verb: str) -> StepRecord:
    undo = s.steps.get(key if key.endswith("!undo") else undo_key(key))
    if undo is None:
        raise not_allowed(s, f"{verb}({key!r})", "that step has no undo that was ordered")
    return undo
