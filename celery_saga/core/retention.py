"""What may be purged: what is asked of a purge, where it stands, and what became of its part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepRecord
from celery_saga.core.status import RunStatus

PURGEABLE: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
"""Ends that nobody has to act on. `suspended` is no end, and `compensation_failed` waits for a person."""


@dataclass(frozen=True, slots=True)
class PurgeFilter:
    """Which runs may go: those of these statuses that ended before `cutoff`, with all that hang below them.

    Args:
        cutoff: aware UTC; a run that ended then or later stays.
        saga: of the run at the top of a tree; None: any.
        status: some of PURGEABLE, of the run at the top.
        keep_keys: of runs with a key the row stays, emptied.
    """

    cutoff: datetime
    saga: str | None = None
    status: tuple[RunStatus, ...] = PURGEABLE
    keep_keys: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Runs of one saga in the order in which they ended, or what earlier purges left of any.

    Args:
        saga: whose runs; None: the emptied rows of earlier purges, of any saga, by their creation.
        after: (instant, id) of the last one that was looked at; None: none yet.
        before: (instant, id) of the first that is to stay; None: all may go.
    """

    saga: str | None
    after: tuple[datetime, str] | None = None
    before: tuple[datetime, str] | None = None


@dataclass(frozen=True, slots=True)
class Purged:
    """What one transaction did.

    Args:
        matched: runs that were found to go, children included.
        deleted: runs that are gone, or emptied; 0 in a dry run.
        keys_kept: those of them whose row stays with its key.
        rest: what is left to look at; None: nothing.
    """

    matched: int
    deleted: int
    keys_kept: int
    rest: Stretch | None


class RetentionStore(Protocol):
    """Takes runs out and in; each method is one transaction of its own."""

    def purge_stretches(self, wanted: PurgeFilter, *, keep_latest: int | None = None) -> list[Stretch]:
        """Where a purge has to look; of each saga the `keep_latest` runs that ended last stay."""

    def purge_some(self, wanted: PurgeFilter, stretch: Stretch, *, limit: int, dry_run: bool = False) -> Purged:
        """Purge some runs of a stretch: at most `limit` whole trees, with everything that belongs to them.

        A tree goes only if each run of it has ended before the cut-off in one of `core.retention.PURGEABLE`. What
        somebody else has locked is left out. `dry_run`: only counts.
        """

    def protected(self, wanted: PurgeFilter) -> tuple[int, int]:
        """How many stay though they are old: live ones created, compensation_failed ones ended before the cut-off."""

    def import_run(
        self,
        run: RunRecord,
        steps: Sequence[StepRecord],
        history: Sequence[HistoryRecord],
        signals: Sequence[SignalRecord],
    ) -> bool:
        """Write a run with all that belongs to it, steps in the order given.

        False: its id is there; nothing was written.
        """
