"""The undo of one step: whether it needs one, and how that is ordered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from celery_saga.core import children, codec, wakeup
from celery_saga.core.orders import Call, RunSpec, StepSpec, UndoSpec
from celery_saga.core.parking import park
from celery_saga.core.records import Action, StepKind, StepRecord, undo_key
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus


def needs_undo(s: Snapshot, step: StepRecord) -> bool:
    """The step succeeded or may have, has an undo, and that was never ordered."""
    is_child = step.kind is StepKind.CHILD
    if not (is_child or '"undo"' in step.spec_text) or step.kind is StepKind.UNDO or undo_key(step.key) in s.steps:
        return False
    if not (step.status is StepStatus.DONE or (step.maybe and step.status.is_end)):
        return False
    return is_child or StepSpec.from_text(step.spec_text).undo is not None


def order_undo(s: Snapshot, step: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """Write the undo of `step` as a scheduled step of its own, or park where nobody can say how to undo it."""
    if step.kind is StepKind.CHILD:
        return _order_undo_of_child(s, step, now, resend_s)
    spec = StepSpec.from_text(step.spec_text)
    assert spec.undo is not None
    unknown = step.status is not StepStatus.DONE
    if unknown and spec.undo.unknown == "park":
        return park(
            s,
            now,
            "undo_unknown",
            detail=f"outcome of step {step.key!r} is unknown and its undo needs its result",
            step=step.key,
        )
    undo = undo_record(s, step, now)
    if unknown and spec.undo.unknown == "skip":
        return s.with_step(replace(undo, status=StepStatus.CANCELLED)).note(
            now, Action.SKIP, "undo", step=undo.key, detail="unknown outcome"
        )
    return s.with_step(wakeup.scheduled(undo, now, resend_s))


def _order_undo_of_child(s: Snapshot, step: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """The child undoes itself, and is told to; one whose undos are used up already is written down as that."""
    undo = StepRecord(
        run_id=s.run.id,
        generation=s.run.generation,
        key=undo_key(step.key),
        kind=StepKind.UNDO,
        status=StepStatus.WAITING,
        created_at=now,
        scope=step.scope,
        ordinal=step.ordinal,
        born=step.born,
        task=step.task,
        spec_text=step.spec_text,
        task_id=step.task_id,
        undo_of=step.key,
    )
    if step.status is not StepStatus.FAILED:
        return s.with_step(children.told(undo, now, resend_s))
    detail = f"child run {step.task_id} ended as compensation_failed"
    s = s.with_step(replace(undo, status=StepStatus.FAILED, error_text=step.error_text, ended_at=now))
    s = s.note(now, Action.FAIL, "undo", step=undo.key, detail=detail)
    return park(s, now, "undo_failed", detail=detail, step=undo.key) if s.run.status.is_forward else s


def undo_record(s: Snapshot, step: StepRecord, now: datetime) -> StepRecord:
    """The undo of `step` as a step of its own, with the step's result (None where that is unknown) in its arguments."""
    spec = StepSpec.from_text(step.spec_text)
    undo = spec.undo
    assert undo is not None
    retry = _undo_retry(s, undo)
    return StepRecord(
        run_id=s.run.id,
        generation=s.run.generation,
        key=undo_key(step.key),
        kind=StepKind.UNDO,
        status=StepStatus.SCHEDULED,
        created_at=now,
        scope=step.scope,
        ordinal=step.ordinal,
        born=step.born,
        task=undo.call.task,
        args_text=undo_args(undo.call, step.result_text),
        spec_text=StepSpec(options=undo.call.options, retry=retry, transactional=spec.transactional).to_text(),
        undo_of=step.key,
    )


def task_of_undo(s: Snapshot, key: str) -> str | None:
    """Name of the task that undoes this step; None: it has none, or is a child, which undoes itself."""
    key = key.removesuffix("!undo")
    undo = s.steps.get(undo_key(key))
    step = s.steps.get(key)
    if undo is not None:
        return undo.task if StepSpec.from_text(undo.spec_text).child is None else None
    spec = None if step is None else StepSpec.from_text(step.spec_text).undo
    return None if spec is None else spec.call.task


def undo_args(call: Call, result_text: str | None) -> str:
    """Codec text of the undo's arguments: the step's result goes first unless the signature is immutable."""
    if call.immutable:
        return call.args_text
    args, kwargs = codec.decode(call.args_text)
    result = None if result_text is None else codec.decode(result_text)
    return codec.encode([[result, *args], kwargs])


def _undo_retry(s: Snapshot, undo: UndoSpec) -> Any:
    return undo.retry or RunSpec.from_text(s.run.spec_text).undo_retry


def is_undo_pending(s: Snapshot, step: StepRecord) -> bool:
    """It ended with an unknown effect, and the undo of that is not through: nobody may see its end yet."""
    if not step.maybe or step.status is StepStatus.DONE or step.kind is StepKind.CHILD:
        return False  # a child has tried already
    undo = s.steps.get(undo_key(step.key))
    return needs_undo(s, step) if undo is None else not undo.status.is_end
