"""Changes for runs in flight: whether a run had passed a place of its body before the change to it was made.

Theory of operation. `patched(id)` takes no place of its own among the steps of a scope, so that it may be written in
front of steps that are recorded. A run that has something recorded behind the place had passed it before the change:
it answers False, and stores nothing. A run that stands here for the first time stores a marker, `<id>!patched`, and
answers True for ever after. Within one scope the first answer to an id counts for the whole pass: it is the same in
each replay, because what lies behind a place is never less than it was.
"""

from __future__ import annotations

from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replay import Replay, Suspended

_MARKER = "!patched"
_NO_PLACE = -1


def patched(replay: Replay, change_id: str) -> bool:
    """Whether the pass is to take the new way.

    Args:
        change_id: names the change within its scope; it has none of the characters that keys are made of.
    Raises:
        Suspended: the pass was suspended before.
        DefinitionError: the body has caught a bug that had left a section of it.
    """
    if replay.suspended:
        raise Suspended
    replay.check_bug()
    scope = replay.scope
    if change_id not in scope.patches:
        scope.patches[change_id] = _first_answer(replay, change_id)
    return scope.patches[change_id]


def _first_answer(replay: Replay, change_id: str) -> bool:
    key = f"{replay.scope.prefix}{change_id}{_MARKER}"
    replay.asked.add(key)
    if key in replay.snapshot.steps:
        return True
    if replay.scope.left is not None or any(_is_behind(replay, step) for step in replay.placed()):
        return False  # a scope that was left by an error has been passed, whatever lies in it
    replay.check_region(key)
    replay.orders.append(Order(StepKind.PATCH, key, replay.scope.prefix, _NO_PLACE))
    return True


def _is_behind(replay: Replay, step: StepRecord) -> bool:
    """The body had ordered this step after the place where it is now."""
    scope = replay.scope
    if not step.scope.startswith(scope.prefix):
        return False
    if step.scope == scope.prefix:
        return step.ordinal >= scope.next_ordinal
    # In a scope or join within this one: behind, unless the body has been in there.
    name, _, count = step.scope[len(scope.prefix) :].partition("/")[0].partition("[")[0].partition("#")
    return scope.seen.get(name, 0) < int(count or 1)
