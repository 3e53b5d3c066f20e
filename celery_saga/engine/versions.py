"""Which versions of sagas have live runs, and which workers know them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from celery_saga.core.ports import Store

__all__ = ["VersionRecord", "versions"]


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version of a saga.

    `live_runs` counts the runs of it that have not ended. `workers` are the live sweepers, `host:pid`, whose process
    knows it: those of workers, and `celery saga sweeper`; all of them where it is a graph that is stored.
    `known_here`: the process that asks knows it.
    """

    saga: str
    version: int
    live_runs: int
    known_here: bool
    workers: tuple[str, ...]

    @property
    def is_orphaned(self) -> bool:
        """It has live runs, and no worker that would take them up: deploy one, or cancel them."""
        return self.live_runs > 0 and not self.workers


def versions(store: Store, known_here: Iterable[tuple[str, int]], *, alive_s: float) -> list[VersionRecord]:
    """Every version that has live runs or is known to somebody, by name and version.

    Args:
        known_here: name and version of each saga that this process knows.
        alive_s: a sweeper that has been silent for so long, in seconds, does not count.
    """
    here = set(known_here)
    live = {(saga, version): count for saga, version, count in store.live_versions()}
    workers: dict[tuple[str, int], list[str]] = {}
    alive = [each for each in store.sweepers() if each["silent_s"] < alive_s]
    for each in alive:
        for saga, version in each["sagas"]:
            workers.setdefault((str(saga), int(version)), []).append(str(each["name"]))
    for one in live:
        if len(workers.get(one, ())) < len(alive) and store.definition(*one) is not None:
            workers[one] = [str(each["name"]) for each in alive]
    return [
        VersionRecord(*one, live.get(one, 0), one in here, tuple(workers.get(one, ())))
        for one in sorted({*here, *live, *workers})
    ]
