"""Skipping a step: a person says what its result is, and it counts as done; in a join, as a part that is in."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import codec, pivot, wakeup
from celery_saga.core.advance import thaw
from celery_saga.core.cuts import cut_from, in_line
from celery_saga.core.focus import is_inside, part_of, region_of
from celery_saga.core.generation import unfolded
from celery_saga.core.joins import ended
from celery_saga.core.orders import StepSpec
from celery_saga.core.records import Action, StepKind, StepRecord, undo_key
from celery_saga.core.refusals import not_allowed
from celery_saga.core.restart import restart
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, StepEvent, StepStatus
from celery_saga.core.waits import deliver


def skip(
    s: Snapshot, key: str, now: datetime, resend_s: float, *, result_text: str, reason: str, by: str | None
) -> Snapshot:
    """Take a step for done with this result, without executing it; a run that was parked for it goes on.

    Where it is a part of the join that the run was parked for, the parts that are missing are executed again; when
    none is, the join is over and the run goes on.

    Raises:
        IllegalTransition: there is no such step, or nobody waits for it any more; nothing was changed.
    """
    step = s.steps.get(key)
    why = _why_not(s, key, step, result_text)
    if step is None or why is not None:
        raise not_allowed(s, f"skip({key!r})", why or "there is no such step")
    s = s.note(now, Action.SKIP, str(step.kind), step=key, by=by, reason=reason or None)
    s = pivot.passed(_resolve(s, step, result_text, now), key)
    join = s.steps.get(step.join_key or "")
    if join is not None and join.status.is_end:
        return _in_failed_join(s, join, now, resend_s)
    if s.is_parked and s.run.error_step == key:
        return _go_on(s, now, resend_s)
    if join is not None and step.status.is_end:
        return s  # it was counted when it failed
    return ended(s, key, now, resend_s)


def _resolve(s: Snapshot, step: StepRecord, result_text: str | None, now: datetime) -> Snapshot:
    over: dict[str, object] = dict.fromkeys(("error_text", "wake_at", "due_at", "claim_token"))
    return s.move_step(step.key, StepEvent.RESOLVED, result_text=result_text, maybe=False, ended_at=now, **over)


def _in_failed_join(s: Snapshot, join: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    if any(x.status is not StepStatus.DONE for x in s.steps.values() if x.join_key == join.key):
        return thaw(restart(s, now, resend_s, cut=cut_from(s, join.key)), now, resend_s)
    s = s.with_steps({x.key: x for x in unfolded(s.steps.values(), join.key)})
    return _go_on(_resolve(s, s.steps[join.key], None, now), now, resend_s)


def _go_on(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    s = s.move_run(RunEvent.RESUMED, reason=None, error_text=None, error_step=None)
    return wakeup.wake(deliver(thaw(s, now, resend_s), now, resend_s), now, resend_s)


def _why_not(s: Snapshot, key: str, step: StepRecord | None, result_text: str) -> str | None:
    if step is None:
        return f"there is no such step; its steps: {', '.join(s.steps) or 'none'}"
    if step.kind is StepKind.UNDO:
        return "for an undo use resolve_undo"
    if s.run.outcome is not None:
        return "the forward part has ended"
    if step.kind is StepKind.CHILD and step.status is StepStatus.WAITING:
        return f"it is the run {step.task_id}, which lives: cancel that first"
    if step.status in (StepStatus.DONE, StepStatus.RUNNING):
        return "it is done already" if step.status is StepStatus.DONE else "an attempt of it runs right now"
    if undo_key(key) in s.steps:
        return "it was undone already, and could not be undone again"
    left = [x.undo_of or "" for x in s.steps.values() if x.kind is StepKind.ROLLBACK]
    if any(is_inside(key, prefix) for prefix in left):
        return "it lies in what was left by an error, and is undone"
    if step.kind is StepKind.JOIN and step.status is StepStatus.WAITING:
        return "it is a join that waits for its parts: skip those"
    if step.kind is StepKind.JOIN and not _is_result_of(step, result_text):
        return f"it is a join: give a list of the results of its {step.join_total} parts, or skip the parts"
    return _why_not_there(s, step)


def _why_not_there(s: Snapshot, step: StepRecord) -> str | None:
    part = s.steps.get(part_of(region_of(step.key)))
    if part is not None and part.key != step.key and part.status.is_end:
        return f"it lies in part {part.key!r}, which is over: skip that"
    join = s.steps.get(step.join_key or "")
    if join is None or not join.status.is_end:
        return None
    if s.is_parked and join.key == s.run.error_step == in_line(step.key) and _is_aborted(join):
        return None
    return f"its join {join.key!r} is over"


def _is_aborted(join: StepRecord) -> bool:
    return join.status is StepStatus.FAILED and StepSpec.from_text(join.spec_text).on_failure == "abort"


def _is_result_of(join: StepRecord, result_text: str) -> bool:
    value = codec.decode(result_text)
    is_plain = StepSpec.from_text(join.spec_text).on_failure == "abort"
    return is_plain and isinstance(value, list) and len(value) == join.join_total
