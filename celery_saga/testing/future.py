"""When something is due next, in a store with few live runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from celery_saga.core.ports import Loaded, RunFilter, Store
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus

__all__ = ["live_runs", "next_due"]

_LIVE = tuple(str(status.value) for status in RunStatus if not status.is_end)
_MOST = 10_000


def live_runs(store: Store) -> list[RunRecord]:
    """Runs that have not ended, the suspended among them."""
    return store.runs(RunFilter(status=_LIVE, limit=_MOST))


def next_due(store: Store, now: datetime, *, schedules: bool = True) -> datetime | None:
    """The next instant after `now` at which a run, a step or signal of a live one, or a schedule is due; None: never.

    Args:
        schedules: False: they do not count, as they may go on for ever.
    """
    instants = [at for run in store.runs(RunFilter(limit=_MOST)) for at in _of_run(store, run)]
    if schedules:
        instants += [each.wake_at for each in store.schedules() if each.wake_at is not None]
    instants += [load.lane.wake_at for load in store.lanes() if load.lane.wake_at is not None]
    return min((at for at in instants if at > now), default=None)


def _of_run(store: Store, run: RunRecord) -> Iterator[datetime]:
    loaded = None if run.status.is_end else store.load(run.id)
    if loaded is not None:
        yield from _instants(loaded)
    elif run.wake_at is not None:  # a child whose end its parent has not recorded yet
        yield run.wake_at


def _instants(loaded: Loaded) -> Iterator[datetime]:
    s = loaded.snapshot
    for at in (s.run.wake_at, *(x.wake_at for x in s.steps.values()), *(x.wake_at for x in s.inbox)):
        if at is not None:
            yield at
