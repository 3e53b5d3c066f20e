"""Scopes of a body: entered at a place of their own, and left by an error only once what they did is undone.

Theory of operation. Entering is a mark, `ship`; what is asked for inside has keys that begin with `ship/`. Leaving by
an error that ends the forward part orders the rollback of the scope, `ship!rollback`, and suspends the pass. Once that
row is done (see `core.rollback`) the next pass comes here with the same error, and lets it on. A bug leaves a scope
without a trace: its run parks, and goes on inside after the fix.
"""

from __future__ import annotations

from collections.abc import Iterable

from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.core.replay import Replay
from celery_saga.core.rollback import rollback_key

SCOPE = "scope"
"""Task of the mark at which a scope is entered."""


def enter(replay: Replay, name: str) -> str:
    """The key of the scope that is entered here; its prefix is that and a slash.

    Raises:
        Suspended: the pass was suspended before.
    """
    key = replay.peek_key(name)
    replay.ask(StepKind.MARK, name, task=SCOPE, make=lambda: Order(StepKind.MARK, "", "", 0))
    return key


def begin(replay: Replay, key: str) -> None:
    """Inside the scope: what it may order. One that was left by an error before can only do the same again."""
    if rollback_key(key) in replay.snapshot.steps:
        replay.scope.left = replay.scope.left or key


def leave_by(replay: Replay, key: str, error: Exception, errors: Iterable[type[BaseException]]) -> None:
    """Return where this error may go on: the scope is undone, or the error is a bug, which undoes nothing.

    Args:
        errors: the classes that the saga declares.
    Raises:
        Suspended: the scope is not undone yet.
    """
    if replay.suspended:
        return
    note_bug(replay, f"scope {key!r}", error, errors)
    if replay.bug is not None:
        return  # it left a section within, and the body has made another error of it: that leaves the body, or parks
    record = replay.snapshot.steps.get(rollback_key(key))
    if record is None:
        replay.check_open(rollback_key(key))
        replay.check_region(rollback_key(key))
        replay.orders.append(Order(StepKind.ROLLBACK, rollback_key(key), key + "/", -1))
        replay.suspend()
    if not record.status.is_end:
        replay.suspend()


def note_bug(replay: Replay, where: str, error: Exception, errors: Iterable[type[BaseException]]) -> None:
    """Remember that a bug has left this section: the body may only let it on."""
    if replay.bug is None and not replay.suspended and not replay.raised(error, errors).declared:
        replay.bug = (where, error)


def leave(replay: Replay, key: str) -> None:
    """The scope comes to its end.

    Raises:
        Suspended: it is recorded to have been left by an error; the run parks.
    """
    if not replay.suspended and rollback_key(key) in replay.snapshot.steps:
        replay.miss(f"scope {key!r} was left by an error and is undone, the body now comes to its end")
