"""What is new of a run since it was looked at last: asked of the database, soon after news and then less often."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from celery_saga.client.progress import Progress, of_steps
from celery_saga.client.waiting_on import WaitingOn, waiting_on
from celery_saga.core.records import HistoryRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.errors import ResultPurged
from celery_saga.store import SqlStore

__all__ = ["News", "follow"]

_FIRST_S, _GROWTH, _LONGEST_S = 0.1, 1.5, 2.0


@dataclass(frozen=True, slots=True)
class News:
    """A run as it is now, `now` by the database's clock, and what is new: history rows, and progress by step key."""

    seen: Snapshot
    now: datetime
    rows: tuple[HistoryRecord, ...]
    progress: dict[str, Progress]
    waiting: tuple[WaitingOn, ...]


def follow(store: SqlStore, run_id: str, *, pause: Callable[[float], None] = time.sleep) -> Iterator[News]:
    """The run at once, then after each pause, up to its end; most of the news are empty.

    Args:
        pause: waits so many seconds.
    Raises:
        ResultPurged: it is there no more.
    """
    version, after, pause_s = 0, 0, _FIRST_S
    before: dict[str, Progress] = {}
    waiting: tuple[WaitingOn, ...] = ()
    while True:
        loaded = store.load(run_id)
        if loaded is None:
            raise ResultPurged(f"run {run_id!r} is there no more: it was purged.")
        seen = loaded.snapshot
        rows: tuple[HistoryRecord, ...] = ()
        if seen.run.state_version != version:
            version, rows = seen.run.state_version, tuple(store.history(run_id, after=after))
            after = rows[-1].seq if rows else after
        # Claims move no version, so this is looked at each time.
        waiting = tuple(waiting_on(seen, lambda: store.history(run_id), lambda: store.place_of(run_id)))
        progress = of_steps(seen.steps)
        fresh = {key: each for key, each in progress.items() if before.get(key) != each}
        before = progress
        yield News(seen, loaded.now, rows, fresh, waiting)
        if seen.run.status.is_end:
            return
        pause_s = _FIRST_S if rows or fresh else min(pause_s * _GROWTH, _LONGEST_S)
        pause(pause_s)
