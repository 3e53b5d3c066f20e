"""Everything out of a store, so that the next test finds it as new."""

from __future__ import annotations

from sqlalchemy import delete

from celery_saga.store import SqlStore


def empty(store: SqlStore) -> None:
    """Delete the rows of every table but of the list of applied migrations; statements that were compiled stay."""
    store.trace = None
    tables = store.schema.metadata.sorted_tables
    with store.sessions.engine.begin() as connection:
        for table in reversed(tables):
            if table is not store.schema.applied:
                connection.execute(delete(table))
