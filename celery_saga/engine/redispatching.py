"""After a broker has lost its messages: every wake-up that is still waited for is sent again, each at most once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery_saga.core.children import is_of_child
from celery_saga.core.due import Due, DueKind, SentFilter
from celery_saga.core.status import StepStatus
from celery_saga.core.unreadable import unread
from celery_saga.engine.dispatch import wake_up
from celery_saga.engine.ports import Message, RunMessage
from celery_saga.engine.world import World

__all__ = ["Redispatched", "WakeUp", "redispatch"]

_BATCH = 200

QueueOf = Callable[[Message], str | None]
"""The queue to which a message goes; None: not known here."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A wake-up that is sent again.

    `step` is the key of a step, None for a run; `sends` how often it was sent before, or put off; `last_sent_at` when
    that was last. `queue` is None where this process does not know it.
    """

    run_id: str
    saga: str
    key: str | None
    step: str | None
    task: str | None
    queue: str | None
    last_sent_at: datetime | None
    sends: int


@dataclass(frozen=True, slots=True)
class Redispatched:
    """What was sent again, or with `dry_run` would be; `unsent`: how many could not be, and are the sweepers' now."""

    dry_run: bool
    wake_ups: tuple[WakeUp, ...]
    unsent: int = 0


def redispatch(
    world: World,
    queue_of: QueueOf,
    *,
    dry_run: bool,
    saga: str | None = None,
    queue: str | None = None,
    again: bool = False,
) -> Redispatched:
    """Send again what was sent and is still waited for; claimed steps and parked runs wait for no message.

    Each row is marked before it is sent, so that neither the sweeper nor a second redispatch within `saga_lease` sends
    it too. Waits, timers and back-offs whose time has not come were not sent, and are not.

    Args:
        queue_of: tells where a message goes.
        saga, queue: only those of this saga, and those that go to this queue.
        again: also those that were redispatched less than `saga_lease` ago.
    """
    found: list[WakeUp] = []
    woken: set[str] = set()
    for kind in (DueKind.RUN, DueKind.STEP):
        for page in _pages(world, kind, saga, again=again):
            dues = [due for due in page if _is_readable(due) and (queue is None or queue_of(_message(due)) == queue)]
            told = {_place(due): _told(due, queue_of) for due in dues}
            marked = dues if dry_run else world.store.mark_redispatched(dues, hold_s=world.limits.lease_s)
            # Two rows may stand for one message: a timer, and the run that it wakes.
            fresh = [due for due in marked if not _wakes_run(due) or due.run_id not in woken]
            fresh = list({_identity(due): due for due in fresh}.values())
            woken |= {due.run_id for due in fresh if _wakes_run(due)}
            sent = len(fresh) if dry_run else _send(world, [_message(due) for due in fresh])
            found += [told[_place(due)] for due in fresh[:sent]]
            if sent < len(fresh):
                world.store.take_back(fresh[sent:])
                return Redispatched(dry_run, tuple(found), len(fresh) - sent)
    return Redispatched(dry_run, tuple(found))


def _pages(world: World, kind: DueKind, saga: str | None, *, again: bool) -> Iterator[list[Due]]:
    now = world.store.now()
    # What this very call has marked lies ahead of the cursor, and is left out by its mark.
    again_before = now - timedelta(microseconds=1) if again else now - timedelta(seconds=world.limits.lease_s)
    after: tuple[datetime, tuple[Any, ...]] | None = None
    while page := world.store.sent(kind, SentFilter(again_before, saga, after, _BATCH)):
        yield page
        last = page[-1]
        row = last.step if last.step is not None else last.run
        assert row is not None
        assert row.wake_at is not None
        after = (row.wake_at, _place(last))


def _send(world: World, messages: list[Message]) -> int:
    """How many went out; goes on while some do."""
    sent = 0
    while sent < len(messages):
        more = world.publisher.publish(messages[sent:])
        if more == 0:
            break
        sent += more
    return sent


def _message(due: Due) -> Message:
    assert due.run is not None
    if due.step is None or _wakes_run(due):
        return RunMessage(due.run)
    return wake_up(due.run, due.step)


def _is_readable(due: Due) -> bool:
    """Else it is left to the sweeper, who parks its run."""
    return unread(row for row in (due.run, due.step) if row is not None) is None


def _wakes_run(due: Due) -> bool:
    """Its message is one for the run itself: of the run, or of a wait of it whose time has come."""
    return due.step is None or (due.step.status is StepStatus.WAITING and not is_of_child(due.step))


def _identity(due: Due) -> tuple[Any, ...]:
    return (due.run_id,) if _wakes_run(due) else (due.run_id, *_place(due))


def _place(due: Due) -> tuple[Any, ...]:
    step = due.step
    return (due.run_id,) if step is None else (step.run_id, step.generation, step.key)


def _told(due: Due, queue_of: QueueOf) -> WakeUp:
    run, step = due.run, due.step
    assert run is not None
    queue = queue_of(_message(due))
    if step is None:
        return WakeUp(run.id, run.saga, run.key, None, None, queue, run.sent_at, run.sends)
    return WakeUp(run.id, run.saga, run.key, step.key, step.task, queue, step.sent_at, step.sends)
