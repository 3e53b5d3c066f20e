"""What runs hold in the other store: found before their rows go, deleted once they are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Text, literal, select, type_coerce

from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.types import Payload
from celery_saga.store.vault import AWAY

if TYPE_CHECKING:
    from celery_saga.store.sql_store import SqlStore

__all__ = ["forget", "orphans", "references", "references_of"]


def references(store: SqlStore, run_ids: Sequence[str]) -> list[str]:
    """Under which references these runs hold texts elsewhere: of every generation, with steps and signals.

    No row of another run holds one of them.

    Raises:
        StoreUnavailable: the database is out of reach.
    """
    if store.vault.offload is None:
        return []
    return store.sessions.read("references", lambda tx: references_of(tx, store.schema, run_ids))


def references_of(tx: Tx, schema: Schema, run_ids: Sequence[str]) -> list[str]:
    """The same inside a transaction that takes the rows away; nothing where nothing is kept elsewhere."""
    found: list[str] = []
    if schema.vault.offload is None:
        return found
    for table in schema.metadata.sorted_tables:
        large = [column for column in table.c if isinstance(column.type, Payload) and column.type.is_large]
        of_run = table.c.id if table is schema.run else table.c.get("run_id")
        for column in large:
            if of_run is None:
                continue
            raw = type_coerce(column, Text)
            held = select(raw).where(of_run.in_(run_ids), raw.startswith(literal(AWAY, Text)))
            found += [text[len(AWAY) :] for text in tx.run("find references", held).scalars()]
    return list(dict.fromkeys(found))


def orphans(store: SqlStore, before: datetime) -> list[str]:
    """References of what was put elsewhere before an instant, and that no row of these tables names.

    Reads each table once, without an index.

    Args:
        before: long enough ago that whatever was to name them has been committed.
    Raises:
        DefinitionError: saga_offload does not tell what it keeps.
        StoreUnavailable: it, or the database, is out of reach.
    """
    kept = store.vault.put_before(before)  # before the rows are read: what is put meanwhile is not among them
    named = store.sessions.read("named", lambda tx: _named(tx, store.schema)) if kept else set()
    return [reference for reference in kept if reference not in named]


def _named(tx: Tx, schema: Schema) -> set[str]:
    found: set[str] = set()
    for table in schema.metadata.sorted_tables:
        for column in table.c:
            if isinstance(column.type, Payload) and column.type.is_large:
                raw = type_coerce(column, Text)
                held = tx.run("find references", select(raw).where(raw.startswith(literal(AWAY, Text))))
                found.update(text[len(AWAY) :] for text in held.scalars())
    return found


def forget(store: SqlStore, gone: Iterable[str]) -> None:
    """Delete what is kept under references that no row holds any more: after the commit that took the rows away.

    Raises:
        StoreUnavailable: saga_offload is out of reach; what is left can be deleted by calling it again.
    """
    store.vault.forget(gone)
