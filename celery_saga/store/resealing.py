"""Payloads that are at rest, sealed anew: under the codec's present key, also those from before there was a codec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Table, Text, and_, bindparam, select, tuple_, type_coerce, update

from celery_saga.core.unreadable import Unreadable
from celery_saga.errors import DefinitionError
from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore
from celery_saga.store.types import EMPTY, Payload
from celery_saga.store.vault import AWAY, MARK

__all__ = ["Resealed", "reseal", "tables_to_reseal"]


@dataclass(frozen=True, slots=True)
class Resealed:
    """One batch.

    Args:
        after: primary key of its last row, to go on from; None: the table is through.
        texts: how many were sealed anew.
        unreadable: how many cannot be read, and were left as they are.
    """

    after: tuple[Any, ...] | None
    texts: int
    unreadable: int


def tables_to_reseal(store: SqlStore) -> list[str]:
    """Names of the tables that hold payloads."""
    return [table.name for table in store.schema.metadata.sorted_tables if _payloads(table)]


def reseal(store: SqlStore, table_name: str, after: Sequence[Any] | None, *, limit: int) -> Resealed:
    """Seal the payloads of the next `limit` rows of a table anew, in one transaction that takes no run's lock.

    A text is replaced only where it is still the one that was read: who writes meanwhile seals with the present key.

    Raises:
        DefinitionError: no codec is set.
        StoreUnavailable: the database, or saga_offload, is out of reach; this batch is to be done again.
    """
    if store.vault.codec is None:
        raise DefinitionError("no saga_codec is set, so nothing can be sealed; nothing was written")
    table = store.schema.metadata.tables[table_name]
    keys, payloads = list(table.primary_key.columns), _payloads(table)
    rows = store.sessions.read("read sealed", lambda tx: _rows(tx, table, keys, payloads, after, limit))
    unreadable = 0
    changes: list[tuple[Column[Any], dict[str, Any]]] = []
    for row in rows:
        of_row = {f"key_{number}": value for number, value in enumerate(row[: len(keys)])}
        for column, raw in zip(payloads, row[len(keys) :], strict=True):
            if raw is None or raw in EMPTY:
                continue
            text = store.vault.opened(raw) if raw[:1] == MARK else raw
            if isinstance(text, Unreadable):
                unreadable += 1
                continue
            new = store.vault.closed(text, is_large=_is_large(column))
            changes.append((column, of_row | {"old": raw, "new": new}))
    gone = store.sessions.write("reseal", lambda tx: _replace(tx, table, keys, changes)) if changes else []
    store.vault.forget(raw.removeprefix(AWAY) for raw in gone if raw.startswith(AWAY))
    return Resealed(tuple(rows[-1][: len(keys)]) if len(rows) == limit else None, len(changes), unreadable)


def _payloads(table: Table) -> list[Column[Any]]:
    return [column for column in table.c if isinstance(column.type, Payload)]


def _is_large(column: Column[Any]) -> bool:
    return isinstance(column.type, Payload) and column.type.is_large


def _rows(
    tx: Tx, table: Table, keys: list[Column[Any]], payloads: list[Column[Any]], after: Sequence[Any] | None, limit: int
) -> list[Any]:
    wanted = select(*keys, *(type_coerce(column, Text) for column in payloads)).order_by(*keys).limit(limit)
    if after is not None:
        wanted = wanted.where(tuple_(*keys) > tuple_(*after))
    return list(tx.run("read sealed", wanted).all())


def _replace(
    tx: Tx, table: Table, keys: list[Column[Any]], changes: list[tuple[Column[Any], dict[str, Any]]]
) -> list[str]:
    """Write what has not changed meanwhile; stored texts that no row holds any more."""
    gone: list[str] = []
    for column, values in changes:
        here = and_(*(key == bindparam(f"key_{number}", type_=key.type) for number, key in enumerate(keys)))
        same = type_coerce(column, Text) == bindparam("old", type_=Text)
        statement = update(table).where(here, same).values({column: bindparam("new", type_=Text)})
        landed = tx.run("reseal", statement, values).rowcount == 1
        gone.append(values["old"] if landed else values["new"])
    return gone
