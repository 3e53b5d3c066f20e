"""Admission: lanes are looked at one by one, and who has all slots is let in, each in a transaction of its own.

A run gives back and asks in its own transactions, which lock no lane; what follows is here. Whoever dies between two of
these transactions is followed by the sweeper: each row that somebody has to look at has a wake-up.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from celery_saga.core import admission
from celery_saga.core.lanes import SlotState
from celery_saga.core.ports import Transition
from celery_saga.errors import PayloadUnreadable

if TYPE_CHECKING:
    from celery_saga.engine.world import World

logger = logging.getLogger("celery_saga.run")

_AT_A_TIME = 100
_WAITING = (SlotState.QUEUED, SlotState.BACK)


def admit(world: World, lanes: Iterable[str]) -> None:
    """Look at these lanes, and at those that this leads to, until nothing more can be granted.

    Raises:
        StoreUnavailable: the database is out of reach; what is left has its wake-up.
    """
    world.lanes.sync(world)
    todo = deque(dict.fromkeys(lanes))
    while todo:
        name = todo.popleft()
        looked = world.store.admit(name, at_most=_AT_A_TIME, look_s=world.resend_s)
        news: list[str] = [name] if looked.more else []
        for each in looked.granted:
            if each.next_lane is not None:
                news.append(each.next_lane)
            else:
                news += _let_in(world, each.run_id, each.ask, is_free=each.is_needless and _is_free(world, each.run_id))
        todo.extend(each for each in dict.fromkeys(news) if each not in todo)


def pursue(world: World, run_id: str) -> None:
    """Go on with one run that asks: look where it queues, or let it in where it has all its slots."""
    slots = world.store.slots_of(run_id)
    waiting = [slot.lane for slot in slots if slot.state in _WAITING]
    if waiting:
        admit(world, waiting)
    elif any(slot.state is SlotState.HELD for slot in slots):
        is_free = all(slot.is_needless for slot in slots)
        admit(world, _let_in(world, run_id, max(slot.ask for slot in slots), is_free=is_free))


def _is_free(world: World, run_id: str) -> bool:
    """The run needs no slot any more: all that it has were granted by rows that hold nobody back."""
    return all(slot.is_needless for slot in world.store.slots_of(run_id))


def _let_in(world: World, run_id: str, ask: int, *, is_free: bool) -> tuple[str, ...]:
    """Tell a run that it has all its slots; lanes to be looked at, where it had moved on or gives them back at once."""
    event = world.whole(lambda s, now: admission.admitted(s, ask, now, world.resend_s, is_free=is_free))
    try:
        done = world.transact(run_id, event)
    except PayloadUnreadable:  # it is parked, and has given its slots back; or is left to a sweeper
        return ()
    if done is None:
        return ()
    world.tell(done)
    return done.lanes


def enlist(world: World, lane: str) -> None:
    """Have the live runs queue that a cap or a pause has come over. When it returns none of them begins another step.

    Runs that cannot be read are parked; where this world does not park, a sweeper has them queue.

    Raises:
        StoreUnavailable: the database is out of reach; a sweeper goes on with what is left.
    """
    after, is_done = "", True
    while found := world.store.to_enlist(lane, after=after, limit=_AT_A_TIME):
        for run_id in found:
            try:
                world.change(run_id, lambda s, now: admission.enlist(s, now, world.resend_s))
            except PayloadUnreadable as error:
                is_done = is_done and world.parks
                if not world.parks:
                    logger.warning("a sweeper has it queue in %s: %s", lane, error)
        after = found[-1]
    if is_done:
        world.store.enlisted(lane)
    admit(world, [lane])


def follow(world: World, transition: Transition) -> None:
    """What follows a commit that has moved slots."""
    if transition.lanes:
        admit(world, transition.lanes)
