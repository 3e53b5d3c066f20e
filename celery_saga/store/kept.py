"""The half of the store that lists, purges and imports runs, each method as one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from celery_saga.core.ports import DeskRow, RunFilter
from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepRecord
from celery_saga.core.retention import Purged, PurgeFilter, Stretch
from celery_saga.store.callers import CallersTransaction
from celery_saga.store.parts import Parts
from celery_saga.store.schema import Schema
from celery_saga.store.session import Sessions


class KeptRuns:
    """See `celery_saga.core.ports.Store` for what each method promises."""

    schema: Schema
    sessions: Sessions | CallersTransaction
    _parts: Parts

    # -- lists -----------------------------------------------------------------------------------------------
    def runs(self, wanted: RunFilter) -> list[RunRecord]:
        """See the port."""
        return self.sessions.read("runs", lambda tx: self._parts.searching.runs(tx, wanted))

    def desk(self, *, saga: str | None, after: tuple[datetime, str] | None, limit: int) -> list[DeskRow]:
        """See the port."""
        return self.sessions.read("desk", lambda tx: self._parts.desk.rows(tx, saga=saga, after=after, limit=limit))

    def steps(self, run_id: str, *, all_generations: bool = False) -> list[StepRecord]:
        """See the port."""
        return self.sessions.read(
            "steps", lambda tx: self._parts.reading.steps(tx, run_id, all_generations=all_generations)
        )

    def history(self, run_id: str, *, after: int = 0) -> list[HistoryRecord]:
        """See the port."""
        return self.sessions.read("history", lambda tx: self._parts.reading.history(tx, run_id, after))

    def live_versions(self) -> list[tuple[str, int, int]]:
        """See the port."""
        return self.sessions.read("live_versions", self._parts.listing.live_versions)

    def without_wake_up(self) -> list[RunRecord]:
        """See the port."""
        return self.sessions.read("without_wake_up", self._parts.listing.without_wake_up)

    # -- retention -------------------------------------------------------------------------------------------
    def purge_stretches(self, wanted: PurgeFilter, *, keep_latest: int | None = None) -> list[Stretch]:
        """See the port."""
        return self.sessions.read("purge_stretches", lambda tx: self._parts.purging.stretches(tx, wanted, keep_latest))

    def purge_some(self, wanted: PurgeFilter, stretch: Stretch, *, limit: int, dry_run: bool = False) -> Purged:
        """See the port."""
        ask = self.sessions.read if dry_run else self.sessions.write
        done, elsewhere = ask(
            "purge", lambda tx: self._parts.purging.purge(tx, wanted, stretch, limit, dry_run=dry_run)
        )
        if elsewhere:
            # After the commit: a run whose purge was rolled back still needs them.
            self.schema.vault.forget(elsewhere)
        return done

    def protected(self, wanted: PurgeFilter) -> tuple[int, int]:
        """See the port."""
        return self.sessions.read("protected", lambda tx: self._parts.purging.protected(tx, wanted))

    def import_run(
        self,
        run: RunRecord,
        steps: Sequence[StepRecord],
        history: Sequence[HistoryRecord],
        signals: Sequence[SignalRecord],
    ) -> bool:
        """See the port."""
        return self.sessions.write("import", lambda tx: self._parts.importing.put(tx, run, steps, history, signals))
