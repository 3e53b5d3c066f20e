"""SQLite, as a file shared by processes or in memory for one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, Connection, Engine, StaticPool, Table, create_engine, event
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Insert

from celery_saga.store.dialects.base import WRITES, Database, Trouble, pool_options

"""Execution option of a connection whose transaction is going to write."""

_BUSY_TIMEOUT_MS = 30_000


class Sqlite(Database):
    """SQLite 3.24 and later. The host's clock is the database's: both run in one process."""

    skips_locked = False  # a writer has the database to itself
    one_writer = True
    looks_up_alternatives = False  # without statistics it would rather read all steps of a run
    begins_by_itself = False

    def engine(self, url: URL, options: Mapping[str, Any]) -> Engine:
        """Write-ahead log, every commit on disk, and writers that take the lock when they begin."""
        self.one_connection = url.database in {None, "", ":memory:"} or "mode=memory" in str(url)
        given = dict(options)
        connect_args = {"check_same_thread": False, "timeout": _BUSY_TIMEOUT_MS / 1000}
        connect_args.update(given.pop("connect_args", {}))
        own: Mapping[str, Any] = {"poolclass": StaticPool} if self.one_connection else pool_options(given)
        engine = create_engine(url, **{**own, **given, "connect_args": connect_args})
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
        return engine

    def trouble(self, error: DBAPIError) -> Trouble:
        """By SQLite's words; before Python 3.11 its errors have no codes."""
        words = str(error.orig)
        if "no such table" in words or "no such column" in words or "has no column named" in words:
            return Trouble.SCHEMA
        if "locked" in words or "busy" in words:
            return Trouble.LOCKED
        if error.connection_invalidated or "unable to open" in words or "disk I/O error" in words:
            return Trouble.LOST
        return Trouble.OTHER

    def insert_unless_there(self, table: Table) -> Insert:
        """ON CONFLICT DO NOTHING."""
        return insert(table).on_conflict_do_nothing()


def _on_connect(connection: Any, record: object) -> None:
    # The driver would begin transactions of its own, and late; we say BEGIN ourselves.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    # A reader that becomes a writer cannot wait for another writer: it fails at once, whatever the time-out.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
