"""Limits that a step has met: its lane lets nobody in for a while."""

from __future__ import annotations

from celery_saga.core.admission import lane_name
from celery_saga.core.focus import Focus
from celery_saga.core.records import RunRecord
from celery_saga.engine.world import World
from celery_saga.errors import RateLimited, StoreUnavailable

_DEEPEST = 100
_SHORTEST_S = 0.1


def pause_s(limit: RateLimited) -> float:
    """For how long to wait, in seconds: never not at all, or who says so for ever would keep everybody busy.

    Raises:
        DefinitionError: what it says now is no span.
    """
    return max(_SHORTEST_S, RateLimited(limit.seconds).seconds)


def wait_for_limit(world: World, run: RunRecord, seconds: float) -> None:
    """Let nobody into the lane of this run, or of the run in whose slot it is, for so many seconds.

    Before the attempt is checked in: the slot that this frees must not let the next one run into the limit. Where the
    database is away only the step waits.
    """
    try:
        lane = _lane_of(world, run)
        if lane is not None:
            world.store.limit_lane(lane_name(lane), delay_s=seconds)
    except StoreUnavailable:
        return


def _lane_of(world: World, run: RunRecord) -> str | None:
    for _ in range(_DEEPEST):
        if run.parent_id is None:
            break
        loaded = world.store.load(run.parent_id, focus=Focus())
        if loaded is None:
            return None
        run = loaded.snapshot.run
    return run.lane if run.admission else None
