"""The indexes of runs and of what is due: each costs every write, so they leave rows out where the database can."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, Table, and_
from sqlalchemy.sql.elements import ColumnElement


def due_index(table: Table) -> None:
    """For what the sweeper looks at."""
    # Most rows wait for nothing: where the database can, they are not in the index that every tick reads.
    _some(f"{table.name}_due", table.c.wake_at, where=table.c.wake_at.is_not(None))


def desk_index(table: Table) -> None:
    """For the desk: the one that has waited longest first."""
    _some(f"{table.name}_desk", table.c.attention_at, table.c.id, where=table.c.attention_at.is_not(None))


def repeated_index(table: Table) -> None:
    """For what does not get on."""
    # What was woken again and again is rare, and asked for by people.
    _some(f"{table.name}_repeated", table.c.sends, where=and_(table.c.wake_at.is_not(None), table.c.sends >= 5))


def list_indexes(table: Table) -> None:
    """For lists of runs, and for purges."""
    # Every transition moves an indexed column, so each of these costs PostgreSQL a write each time: few, and none that
    # holds rows nobody would look for there.
    name, newest = table.name, (table.c.created_at, table.c.id)
    _some(f"{name}_newest", *newest, where=table.c.purged_at.is_(None))
    _some(f"{name}_purged", *newest, where=table.c.purged_at.is_not(None))
    _some(f"{name}_saga", table.c.saga, table.c.version, table.c.status, *newest, where=table.c.purged_at.is_(None))
    _some(f"{name}_key", table.c.key, where=table.c.key.is_not(None))
    _some(f"{name}_lane", table.c.lane, *newest, where=_is_kept(table, table.c.lane))
    _some(f"{name}_ended", table.c.saga, table.c.ended_at, table.c.id, where=_is_kept(table, table.c.ended_at))
    _some(f"{name}_parent", table.c.parent_id, where=table.c.parent_id.is_not(None))
    Index(f"{name}_status", table.c.status, *newest)


def _is_kept(table: Table, column: Column[Any]) -> ColumnElement[bool]:
    return and_(column.is_not(None), table.c.purged_at.is_(None))


def _some(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> Index:
    """An index that has only these rows where the database can, and all of them elsewhere."""
    return Index(name, *columns, postgresql_where=where, sqlite_where=where)
