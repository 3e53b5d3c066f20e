"""Writes a run that comes from elsewhere, with all that belongs to it, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert
from sqlalchemy.sql.dml import Insert

from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepRecord
from celery_saga.store.dialects import Database
from celery_saga.store.portions import portions
from celery_saga.store.rows import HISTORY_FIELDS, RUN_FIELDS, SIGNAL_FIELDS, placed, values_of
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.tags import Tags

_SIGNAL_COLUMNS = tuple(name for name in SIGNAL_FIELDS if name != "id")


class Importing:
    """Statements that only insert."""

    def __init__(self, schema: Schema, database: Database) -> None:
        self._database = database
        self._tags = Tags(schema, database)
        self._run = database.insert_unless_there(schema.run)
        self._step, self._signal, self._history = insert(schema.step), insert(schema.signal), insert(schema.history)

    def put(
        self,
        tx: Tx,
        run: RunRecord,
        steps: Sequence[StepRecord],
        history: Sequence[HistoryRecord],
        signals: Sequence[SignalRecord],
    ) -> bool:
        """See the port."""
        if not self._database.landed(tx.run("insert run", self._run, values_of(run, RUN_FIELDS))):
            tx.discard()
            return False
        self._tags.insert(tx, [run])
        _insert(tx, "insert steps", self._step, [placed(step, place) for place, step in enumerate(steps)])
        _insert(tx, "insert history", self._history, [values_of(row, HISTORY_FIELDS) for row in history])
        _insert(tx, "insert signals", self._signal, [values_of(signal, _SIGNAL_COLUMNS) for signal in signals])
        return True


def _insert(tx: Tx, label: str, statement: Insert, rows: list[dict[str, Any]]) -> None:
    for some in portions(rows):
        tx.run(label, statement, list(some))
