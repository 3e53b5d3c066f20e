"""A purge as many short transactions, which may stop after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from celery_saga.core.ports import Store
from celery_saga.core.retention import PURGEABLE, PurgeFilter, Stretch

BATCH = 500
"""Runs in one transaction, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What a purge has done so far; see `CelerySaga.purge` for each number."""

    matched: int = 0
    deleted: int = 0
    keys_kept: int = 0
    active_protected: int = 0
    unresolved_protected: int = 0
    dry_run: bool = False

    def document(self) -> dict[str, int | bool]:
        """The numbers by name."""
        return asdict(self)


def purge(
    store: Store, wanted: PurgeFilter, *, keep_latest: int | None = None, batch: int = BATCH, dry_run: bool = False
) -> Iterator[Tally]:
    """Purge what may go; after each transaction, what was done so far. Whoever stops listening stops the purge."""
    # What is live has none of the statuses that were asked for.
    active, unresolved = store.protected(wanted) if wanted.status == PURGEABLE else (0, 0)
    tally = Tally(active_protected=active, unresolved_protected=unresolved, dry_run=dry_run)
    yield tally
    for stretch in store.purge_stretches(wanted, keep_latest=keep_latest):
        rest: Stretch | None = stretch
        while rest is not None:
            done = store.purge_some(wanted, rest, limit=batch, dry_run=dry_run)
            rest = done.rest
            tally = replace(
                tally,
                matched=tally.matched + done.matched,
                deleted=tally.deleted + done.deleted,
                keys_kept=tally.keys_kept + done.keys_kept,
            )
            yield tally


_TIDY_BATCH = 100
_TIDY_EVERY_S = 60.0


class Tidier:
    """Purges by itself what `saga_retention` lets go: a small transaction now and then, never two in a row.

    Args:
        store: the tables.
        retention_s: how long a run is kept after its end, in seconds.
    """

    def __init__(self, store: Store, retention_s: float) -> None:
        self._store = store
        self._retention_s = retention_s
        self._left: list[Stretch] = []
        self._cutoff: datetime | None = None
        self._next_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """There is more to purge, or it is time to look again.

        Args:
            now_s: of a clock that only measures durations, in seconds.
        """
        return bool(self._left) or now_s >= self._next_s

    def put_off(self, now_s: float) -> None:
        """Somebody else does it; look again later."""
        self._left, self._next_s = [], now_s + _TIDY_EVERY_S

    def tidy(self, now_s: float) -> int:
        """One transaction; how many runs are gone."""
        if not self._left or self._cutoff is None:
            self._next_s = now_s + _TIDY_EVERY_S
            self._cutoff = self._store.now() - timedelta(seconds=self._retention_s)
            self._left = self._store.purge_stretches(PurgeFilter(self._cutoff))
        if not self._left:
            return 0
        stretch, *others = self._left
        self._left = others
        done = self._store.purge_some(PurgeFilter(self._cutoff), stretch, limit=_TIDY_BATCH)
        if done.rest is not None:
            self._left = [done.rest, *others]
        return done.deleted
