"""Lanes as an operator sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from celery_saga.core.lanes import LaneLoad, LaneRecord, Place

__all__ = ["LaneInfo", "lane_info", "title", "where_it_queues"]

_KINDS = {"lane": "lane", "saga": "saga", "*": "all"}


@dataclass(frozen=True, slots=True)
class LaneInfo:
    """What is said of a lane, and how it is used.

    Args:
        kind: `lane`, `saga` (all runs of the saga `name`), or `all` (all runs; `name` is `*`).
        cap: how many runs at a time; None: any number.
        hold: `active` or `life`.
        limit, window_s: how many runs become active in so many seconds; None: no such limit.
        source: `code` (settings included), `operator`, or `nobody` yet: who said so.
        held: slots that are taken, those of runs that keep one for life included.
        queued: runs that wait to be let in here.
        paused_at, paused_by, paused_reason: since when nothing is let in, who said so and why; None: it is not paused.
        limited_until: a step has said that a limit was reached, and nothing is let in before.
    """

    kind: str
    name: str
    cap: int | None
    hold: str
    limit: int | None
    window_s: float | None
    source: str
    held: int
    queued: int
    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None
    limited_until: datetime | None


def lane_info(load: LaneLoad) -> LaneInfo:
    """The lane of a row."""
    lane = load.lane
    kind, _, name = lane.name.partition(":")
    return LaneInfo(
        kind=_KINDS[kind],
        name=name or lane.name,
        cap=lane.cap,
        hold=lane.hold,
        limit=lane.limit,
        window_s=lane.window_s,
        source=lane.source,
        held=load.used,
        queued=load.queued,
        paused_at=lane.paused_at,
        paused_by=lane.paused_by,
        paused_reason=lane.paused_reason,
        limited_until=lane.limited_until,
    )


def title(lane: LaneRecord) -> str:
    """A lane as people read it: `lane A`, `saga checkout`, `all sagas`."""
    kind, _, name = lane.name.partition(":")
    return f"{kind} {name}" if name else "all sagas"


def where_it_queues(place: Place) -> str:
    """In one line, why a run is not let in yet."""
    lane = place.lane
    if lane.paused_at is None:
        return f"{title(lane)}: place {place.ahead + 1}"
    by = f" by {lane.paused_by}" if lane.paused_by else ""
    why = f" ({lane.paused_reason})" if lane.paused_reason else ""
    return f"{title(lane)}: paused{by} since {lane.paused_at.isoformat(timespec='seconds')}{why}"
