"""The rows of a transition written by one statement, where the database's WITH can hold writes.

Each row stands guarded by what was read, as in statements of their own; which guards were met comes back as counts.
The order in which the parts are executed is not defined, so no part may need what another one writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, Table, bindparam, func, insert, literal, select, update
from sqlalchemy.sql.elements import ColumnElement

__all__ = ["Guarded", "Together", "guards"]

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Guarded:
    """One row to change: only while `guard`, by column, is still so. It has a value for each column of its key."""

    table: Table
    changes: Values
    guard: Values


class Together:
    """Builds a statement once for each set of tables and columns that was ever written."""

    def __init__(self) -> None:
        self._built: dict[tuple[Any, ...], Executable] = {}

    def statement(self, changed: Sequence[Guarded], added: Sequence[tuple[Table, Values]]) -> Executable:
        """Gives one row: for each of `changed`, whether it was written, as 1 or 0. Inserts write all the same."""
        shape = (
            tuple((each.table.name, tuple(each.changes), _pattern(each.guard)) for each in changed),
            tuple((table.name, tuple(row)) for table, row in added),
        )
        built = self._built.get(shape)
        if built is None:
            built = self._built[shape] = _build(changed, added)
        return built

    @staticmethod
    def binds(changed: Sequence[Guarded], added: Sequence[tuple[Table, Values]]) -> dict[str, Any]:
        """What to execute it with."""
        given: dict[str, Any] = {}
        for number, each in enumerate(changed):
            given |= {f"new{number}_{name}": value for name, value in each.changes.items()}
            given |= {f"old{number}_{name}": value for name, value in each.guard.items() if value is not None}
        for number, (_, row) in enumerate(added):
            given |= {f"add{number}_{name}": value for name, value in row.items()}
        return given


def guards(table: Table, guard: Values, prefix: str) -> list[ColumnElement[bool]]:
    """The conditions of a guard; bound by the column's name after `prefix`."""
    return [_is_as(table, name, value, prefix) for name, value in guard.items()]


def _is_as(table: Table, name: str, value: Any, prefix: str) -> ColumnElement[bool]:
    column = table.c[name]
    return column.is_(None) if value is None else column == bindparam(prefix + name, type_=column.type)


def _pattern(guard: Values) -> tuple[tuple[str, bool], ...]:
    return tuple((name, value is None) for name, value in guard.items())


def _build(changed: Sequence[Guarded], added: Sequence[tuple[Table, Values]]) -> Executable:
    counts = []
    for number, each in enumerate(changed):
        met = (
            update(each.table)
            .where(*guards(each.table, each.guard, f"old{number}_"))
            .values(_bound(each.table, each.changes, f"new{number}_"))
            .returning(literal(1).label("one"))
            .cte(f"changed{number}")
        )
        counts.append(select(func.count()).select_from(met).scalar_subquery())
    rows = []
    for number, (table, row) in enumerate(added):
        written = insert(table).values(_bound(table, row, f"add{number}_")).returning(literal(1).label("one"))
        rows.append(written.cte(f"added{number}"))
    return select(*counts).add_cte(*rows)


def _bound(table: Table, row: Values, prefix: str) -> dict[str, Any]:
    return {name: bindparam(prefix + name, type_=table.c[name].type) for name in row}
