"""Tags of runs as rows, so that lists find them by an index."""

from __future__ import annotations

from collections.abc import Iterable

from celery_saga.core.records import RunRecord
from celery_saga.store.dialects import Database
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx


class Tags:
    """One statement, and none for runs without tags."""

    def __init__(self, schema: Schema, database: Database) -> None:
        self._insert = database.insert_unless_there(schema.tag)

    def insert(self, tx: Tx, runs: Iterable[RunRecord]) -> None:
        """The tags of runs inserted in this transaction."""
        rows = [
            {"run_id": run.id, "tag": tag, "created_at": run.created_at}
            for run in runs
            if run.tags_text != "[]"
            for tag in sorted(set(run.tags))
        ]
        if rows:
            tx.run("insert tags", self._insert, rows[0] if len(rows) == 1 else rows)
