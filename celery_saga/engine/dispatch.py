"""Which wake-ups go out after a transition has committed."""

from __future__ import annotations

from celery_saga.core.children import is_of_child, record_of
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.status import StepStatus
from celery_saga.engine.ports import Message, RunMessage, StepMessage, Transition


def messages_of(transition: Transition) -> list[Message]:
    """One message per step that has just become due, one for the run if it is to be decided, and those for children.

    A child is sent one when it starts and when its parent wants something of it; one that has ended sends its own.
    """
    old, new = transition.old, transition.new
    messages: list[Message] = [
        wake_up(new.run, step)
        for key, step in new.steps.items()
        if _is_due(step) and not _was_due(old.steps.get(key), step)
    ]
    messages += [RunMessage(child) for child in new.starts[len(old.starts) :] if child.sends]
    messages += [
        wake_up(new.run, step)
        for key, step in new.steps.items()
        if step.status is StepStatus.WAITING and _is_told(step) and not _was_told(old.steps.get(key), step)
    ]
    if new.run.parent_id is not None and new.run.status.is_end and new.run.status is not old.run.status:
        messages.append(RunMessage(new.run))
    if new.woken and new.run.status.is_forward:
        messages.append(RunMessage(new.run))
    return messages


def wake_up(run: RunRecord, step: StepRecord) -> Message:
    """What wakes a step: itself, or for a part of the body the one who decides it; a child is coordinated itself."""
    if is_of_child(step):
        return RunMessage(record_of(run, step, step.created_at, 0.0))
    return RunMessage(run, step) if step.kind is StepKind.PART else StepMessage(run, step)


def is_for(message: Message, run: RunRecord) -> bool:
    """It is for the run itself: not for a step or part of it, nor for a child."""
    return isinstance(message, RunMessage) and message.part is None and message.run.id == run.id


def _is_due(step: StepRecord) -> bool:
    return step.status is StepStatus.SCHEDULED and step.sends == 1 and step.due_at is None


def _was_due(before: StepRecord | None, step: StepRecord) -> bool:
    return before is not None and _is_due(before) and before.wake_at == step.wake_at


def _is_told(step: StepRecord) -> bool:
    return step.sends == 1 and step.wake_at is not None and is_of_child(step)


def _was_told(before: StepRecord | None, step: StepRecord) -> bool:
    return before is not None and before.sends == 1 and before.wake_at == step.wake_at
