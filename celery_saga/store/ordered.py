"""Which tasks are steps now, and under which policies: what the checks of a deployment cannot see in the code."""

from __future__ import annotations

from sqlalchemy import select

from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore

__all__ = ["ordered_steps"]


def ordered_steps(store: SqlStore, *, limit: int = 500) -> list[tuple[str, str]]:
    """(task name, spec text) of steps that have a wake-up, the latest `limit` of them. Takes no lock.

    Raises:
        StoreUnavailable: the database cannot be reached.
        SchemaOutdated: there are no tables yet.
    """
    step = store.schema.step
    # Over the index of what is due, so that the number of ended steps does not matter.
    latest = (
        select(step.c.task, step.c.spec_text)
        .where(step.c.wake_at.is_not(None), step.c.task != "")
        .order_by(step.c.wake_at.desc())
        .limit(limit)
    )

    def work(tx: Tx) -> list[tuple[str, str]]:
        return [(task, spec_text) for task, spec_text in tx.run("list ordered steps", latest)]

    return store.sessions.read("ordered steps", work)
