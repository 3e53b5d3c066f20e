"""Stored graphs: one row for each name and version that a run was started with, written once."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from celery_saga.core.ports import StoredDefinition
from celery_saga.errors import StoreUnavailable
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx


class Definitions:
    """Statements over the stored definitions."""

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._clock = clock
        row = schema.definition
        self._now = select(clock.now)
        self._insert = database.insert_unless_there(row)
        self._one = select(row.c.name, row.c.version, row.c.digest, row.c.graph_text, row.c.created_at).where(
            row.c.name == bindparam("name"), row.c.version == bindparam("version")
        )
        # Under a caller's repeatable read a plain read does not show the row that the insert met.
        self._latest = self._one.with_for_update(read=True)

    def get(self, tx: Tx, name: str, version: int) -> StoredDefinition | None:
        """The definition that is stored under this name and version."""
        row = tx.run("load definition", self._one, {"name": name, "version": version}).one_or_none()
        return None if row is None else StoredDefinition(*row)

    def put(self, tx: Tx, name: str, version: int, *, digest: str, graph_text: str) -> StoredDefinition:
        """What is stored under this name and version: what was there, else what is given."""
        there = self.get(tx, name, version)
        if there is not None:
            return there
        now = tx.run("read clock", self._now, self._clock.binds()).scalar_one()
        values = {"name": name, "version": version, "digest": digest, "graph_text": graph_text, "created_at": now}
        tx.run("insert definition", self._insert, values)
        # Read again: another may have been first, and whose row it is must not hang on a row count.
        there = self.get(tx, name, version)
        if there is None:
            row = tx.run("load definition", self._latest, {"name": name, "version": version}).one_or_none()
            there = None if row is None else StoredDefinition(*row)
        if there is None:
            raise StoreUnavailable(f"definition {name!r} version {version} was deleted while it was written")
        return there
