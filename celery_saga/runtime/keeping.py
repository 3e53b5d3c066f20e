"""What an operator asks of the runs that are kept: the half of `CelerySaga` that lists, purges, exports and imports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery_saga.client.export import exported
from celery_saga.client.filters import check_run_id, place_of, run_filter
from celery_saga.client.handle import RunHandle
from celery_saga.client.page import Page
from celery_saga.client.purges import MAX_BATCH, MAX_LATEST, check_count, orphan_cutoff, purge_filter
from celery_saga.core import asked
from celery_saga.core.records import RunRecord
from celery_saga.engine.purging import BATCH, purge
from celery_saga.errors import RunExists

if TYPE_CHECKING:
    from celery_saga.runtime.services import Services
    from celery_saga.store import SqlStore

__all__ = ["Keeping"]


class Keeping:
    """Questions about all runs, whichever saga they are of."""

    @property
    def services(self) -> Services:
        """Store, publisher and engine of this process."""
        raise NotImplementedError

    @property
    def store(self) -> SqlStore:
        """The tables as the caller sees them."""
        raise NotImplementedError

    def runs(
        self,
        *,
        saga: str | None = None,
        version: int | None = None,
        status: str | Iterable[str] | None = None,
        key: str | None = None,
        lane: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        attention: bool = False,
        stuck: bool = False,
        purged: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[RunRecord]:
        """Runs without payloads, newest first; pages hold each one once, whatever is written meanwhile.

        Args:
            saga, version, key, lane, tag: only these.
            status: one status or several.
            since, until: created at or after, and before; aware instants.
            attention: only those that wait for a person: suspended and compensation_failed.
            stuck: only live, unparked ones that do not get on: due longer ago than `saga_lease` and
                `saga_sweep_interval` together, or woken 5 times or more without being taken up; see docs/operations.md.
            purged: only those that were purged but for their key, which are left out otherwise.
            limit: at most so many, 1 to 10000.
            after: `next` of the page before.
        Raises:
            InvalidPayload: a value that is not allowed; nothing was read.
        """
        return self._listed(
            "runs()",
            saga=saga,
            version=version,
            status=status,
            key=key,
            lane=lane,
            tag=tag,
            since=since,
            until=until,
            attention=attention,
            stuck=stuck,
            purged=purged,
            limit=limit,
            after=after,
        )

    def _listed(self, call: str, /, **filters: Any) -> Page[RunRecord]:
        """`runs` for another call, whose name the errors say."""
        filters = {"attention": False, "stuck": False, "purged": False} | filters
        is_stuck = asked.flag(call, "stuck", filters.pop("stuck"), "nothing was read")
        none: dict[str, Any] = dict.fromkeys(
            ("saga", "version", "status", "key", "lane", "tag", "since", "until", "after")
        )
        wanted = run_filter(call, **(none | filters), late_s=self._late_s if is_stuck else None)
        limit = wanted.limit
        found = self.store.runs(replace(wanted, limit=limit + 1))
        return Page(tuple(found[:limit]), place_of(found[limit - 1]) if len(found) > limit else None)

    @property
    def _late_s(self) -> float:
        """After how long something due has been picked up where anybody sweeps, in seconds."""
        limits = self.services.settings.limits
        return limits.lease_s + limits.sweep_interval_s

    def purge(
        self,
        *,
        older_than: float | timedelta | datetime,
        saga: str | None = None,
        status: str | Iterable[str] | None = None,
        keep_latest_per_saga: int | None = None,
        keep_keys: bool = True,
        dry_run: bool = False,
        batch: int = BATCH,
    ) -> dict[str, int | bool]:
        """Delete runs that ended long ago, with steps, history, signals and tags; see docs/retention.md.

        Only completed, failed and cancelled runs, and only whole trees: a run goes with all its children, at any depth,
        or none of them does. Each batch is a transaction of its own, so a purge may be stopped, repeated, and run
        beside another one; a run that is restarted meanwhile stays.

        Args:
            older_than: those that ended longer ago than so many seconds, or before an aware instant.
            saga, status: only these; of the run at the top of a tree.
            keep_latest_per_saga: of each saga the runs that ended last stay, so many.
            keep_keys: of a run with a key a row without payloads stays, so that the same start does not run again: it
                gives a handle with the status, whose result raises ResultPurged; of a run that a schedule has fired no
                key is kept. False: keys go as well, also those that earlier purges have kept.
            dry_run: only count.
            batch: runs of one transaction, 1 to 10000; fewer are taken where they have many steps.
        Returns:
            `matched`: runs that were found to go, children included; `deleted`: runs that are gone, or emptied but for
            the key; `keys_kept`: how many of them were emptied; `active_protected`: live runs, suspended ones included,
            that were started before the cut-off and would have gone if they had ended; `unresolved_protected`: runs as
            old that are compensation_failed; `dry_run`. With `status=` nothing live is asked for: then both are 0.
        Raises:
            InvalidPayload: a value that is not allowed, as a cut-off that is not before now; nothing was purged.
            StoreUnavailable: the database is out of reach; what was purged before stays so.
        """
        dry_run = asked.flag("purge()", "dry_run", dry_run, "nothing was purged")
        store = self.services.store
        wanted = purge_filter(older_than=older_than, now=store.now(), saga=saga, status=status, keep_keys=keep_keys)
        latest = check_count(keep_latest_per_saga, "keep_latest_per_saga", MAX_LATEST)
        size = check_count(batch, "batch", MAX_BATCH) or BATCH
        *_, tally = purge(store, wanted, keep_latest=latest, batch=size, dry_run=dry_run)
        return tally.document()

    def purge_orphans(
        self, *, older_than: float | timedelta | datetime, dry_run: bool = False
    ) -> dict[str, int | bool]:
        """Delete what `saga_offload` keeps and no row names: what was put by somebody who died before the commit.

        For an offload that has `put_before`; see docs/encryption.md. Reads all tables once.

        Args:
            older_than: what was put longer ago than so many seconds, or before an aware instant; 2 hours or more, since
                a checkpoint is tried for one.
            dry_run: only count.
        Returns:
            `found`: objects that no row names; `deleted`; `dry_run`.
        Raises:
            DefinitionError: `saga_offload` does not tell what it keeps; nothing was deleted.
            InvalidPayload: a value that is not allowed; nothing was deleted.
            StoreUnavailable: the database or the offload is out of reach; what was deleted before stays so.
        """
        dry_run = asked.flag("purge_orphans()", "dry_run", dry_run, "nothing was purged")
        from celery_saga.store.offloaded import forget, orphans  # noqa: PLC0415  # only this needs it

        store = self.services.store
        cutoff = orphan_cutoff(older_than, store.now())
        found = orphans(store, cutoff)
        if not dry_run:
            forget(store, found)
        return {"found": len(found), "deleted": 0 if dry_run else len(found), "dry_run": dry_run}

    def export(self, run_id: str) -> dict[str, Any] | None:
        """All that is stored of a run, as values that JSON can write; None: there is no such run.

        Returns:
            As of `RunHandle.export`. Nothing of the run is changed, its `updated_at` neither.
        Raises:
            ResultPurged: only its key is left.
            InvalidPayload: this is no run id.
        """
        return exported(self.store, check_run_id(run_id))

    def import_run(self, document: Mapping[str, Any]) -> RunHandle[Any]:
        """Write a run that was exported elsewhere, as it was; see docs/retention.md.

        Nothing of it happens by itself: it must have ended or be suspended, and a suspended one waits for `resume`.

        Args:
            document: what `export` gave, unchanged; also read back from JSON.
        Raises:
            InvalidPayload: it is no such document, or the run is live; `path` says where.
            RunExists: a run with its id is there, or was purged but for its key. In every case nothing was written.
        """
        from celery_saga.client import importing  # noqa: PLC0415  # only this needs it

        found = importing.read(document)
        run = found.run
        if not self.services.store.import_run(run, found.steps, found.history, found.signals):
            raise RunExists(f"run {run.id!r} is there already; nothing was written.", run_id=run.id)
        return RunHandle(self.services.engine, run.id, self.services.registry.get(run.saga, run.version), key=run.key)
