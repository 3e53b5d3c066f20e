"""Purges one run, with what hangs below it: what `app.saga.purge` does for many, told by its place."""

from __future__ import annotations

from celery_saga.core.records import RunRecord
from celery_saga.core.retention import PurgeFilter, Stretch
from celery_saga.errors import IllegalTransition
from celery_saga.store import SqlStore

__all__ = ["purge_run"]


def purge_run(store: SqlStore, run: RunRecord, *, keep_keys: bool, dry_run: bool = False) -> int:
    """Delete a run and its children; how many runs went, or would go.

    Raises:
        IllegalTransition: it, or a run below it, has not ended, or waits for a person; nothing was purged.
    """
    if run.ended_at is None:
        raise _refused(run)
    # No other id lies between the two.
    between = (run.ended_at, _just_below(run.id)), (run.ended_at, run.id + " ")
    stretch = Stretch(run.saga, *between)
    done = store.purge_some(PurgeFilter(store.now(), run.saga, keep_keys=keep_keys), stretch, limit=1, dry_run=dry_run)
    if not done.matched:
        raise _refused(run)
    return done.matched if dry_run else done.deleted


def _just_below(run_id: str) -> str:
    return run_id[:-1] + chr(ord(run_id[-1]) - 1) + "~"


def _refused(run: RunRecord) -> IllegalTransition:
    return IllegalTransition(
        f"run {run.id!r}: only a completed, failed or cancelled run is purged, whose children have all ended so, and "
        "which is no child of a run that is there; nothing was purged."
    )
