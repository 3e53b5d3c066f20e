"""The tables on a connection of a framework's: made, dropped and shown as SQL by the framework's own migrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import create_mock_engine

from celery_saga.store.migrations import MIGRATIONS, Migration, Phase, migrate
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore, open_store

__all__ = ["apply_part", "drop_statements", "drop_tables", "parts", "statements_of"]


def parts() -> Iterator[tuple[int, Phase, str]]:
    """Number, phase and name of each part that there is, in the order in which they are applied."""
    for migration in MIGRATIONS:
        for phase, _ in migration.parts():
            yield migration.number, phase, migration.name


def apply_part(connection: Any, url: str, prefix: str, number: int, phase: Phase) -> bool:
    """Apply one part of a migration on a framework's connection, in its transaction, and record it.

    Args:
        connection: the framework's, as `SqlStore.joined` takes it.
        url: says which kind of database that is; nothing else of it is used.
    Returns:
        False: it was applied before, by whomever.
    """
    (only,) = (each for each in MIGRATIONS if each.number == number)
    return bool(migrate(_store(connection, url, prefix), phase=phase, migrations=(only,)))


def drop_tables(connection: Any, url: str, prefix: str) -> None:
    """Drop all saga tables that are there, with all that is in them, on a framework's connection."""
    store = _store(connection, url, prefix)

    def work(tx: Tx) -> None:
        store.schema.metadata.drop_all(tx.connection)

    store.sessions.write("drop", work)


def statements_of(url: str, prefix: str, number: int, phase: Phase) -> list[str]:
    """The DDL of one part of a migration, as it is where no table is there yet; nothing is connected.

    Args:
        url: says which kind of database.
    """
    (only,) = (each for each in MIGRATIONS if each.number == number)
    return _written(url, lambda connection: _change(only, phase, connection, prefix))


def drop_statements(url: str, prefix: str) -> list[str]:
    """The DDL of `drop_tables`."""
    return _written(url, Schema(prefix).metadata.drop_all)


def _change(migration: Migration, phase: Phase, connection: Any, prefix: str) -> None:
    for part, change in migration.parts():
        if part == phase:
            change(connection, prefix)


def _written(url: str, work: Any) -> list[str]:
    found: list[str] = []

    def write(statement: Any, *_: Any, **__: Any) -> None:
        found.append(str(statement.compile(dialect=engine.dialect)).strip())

    engine = create_mock_engine(url, write)
    work(engine)
    return found


def _store(connection: Any, url: str, prefix: str) -> SqlStore:
    return open_store(url, table_prefix=prefix).joined(connection)
