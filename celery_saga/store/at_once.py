"""A transition as one statement that commits by itself: a checkpoint with what it orders, on what its claim has read.

Theory of operation. The run's row is written first, and so locked, on the version that the transition was worked out
on; everything else hangs on that write, and on the time that it tells. Where the run has moved, or a signal has come
for it, nothing is written. Where a step is no longer as it was read, the statement fails as a whole. Either way, the
transition is done over in a transaction of the usual kind.

What is bound is one list, the values of all rows one after another; which statement they belong to is told by the rows'
columns and by the types of their values. So nothing is done for each column that was not done once for the statement.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    Dialect,
    Select,
    Table,
    bindparam,
    exists,
    func,
    insert,
    literal_column,
    not_,
    select,
    update,
)
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.moments import Moment
from celery_saga.store.parts import Parts
from celery_saga.store.ready import Pick, Process, Ready
from celery_saga.store.together import guards
from celery_saga.store.types import Instant

__all__ = ["AtOnce", "Change", "Prepared", "When"]

_US = timedelta(microseconds=1)
_RUN_ID = "old0_id"
_NOTHING: Mapping[str, str] = {}


class Change(NamedTuple):
    """A row to write: columns, and their values.

    `guard`, columns and what they must still be, says which row; None: it is a new one. `fixed`: further columns, and
    what is written there as SQL, the same for all rows of these columns.
    """

    table: Table
    names: tuple[str, ...]
    values: tuple[Any, ...]
    guard: tuple[str, ...] | None = None
    was: tuple[Any, ...] = ()
    fixed: Mapping[str, str] = _NOTHING


class When(NamedTuple):
    """What a transition rests on besides its rows.

    Args:
        now: what its moments are counted from.
        until: the time by which its outcome would be another one, so that nothing is written; None: never.
        signals: how many of the run's nobody has taken.
        is_light: it may be lost with the database.
        is_end: of the run.
    """

    now: Moment
    until: datetime | None
    signals: int
    is_light: bool
    is_end: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement, and how it is bound."""

    ready: Ready
    picks: list[Pick]
    moments: list[int]

    def bound(self, flat: list[Any], now: Moment) -> list[Any]:
        """What to execute it with; `flat` as of `AtOnce.flat`, which is used up."""
        for place in self.moments:
            flat[place] = (flat[place] - now) // _US
        return [flat[place] if process is None else process(flat[place]) for place, process in self.picks]


class _Now:
    """Stands for the transition's own time."""


_NOW = _Now()


class AtOnce:
    """Prepares a statement once for each set of tables, columns and types that was ever written."""

    def __init__(self, parts: Parts, nobody_listens: ColumnElement[bool] | None) -> None:
        self._parts, self._clock, self._nobody_listens = parts, parts.clock, nobody_listens

    def flat(self, rows: Sequence[Change], when: When) -> tuple[Hashable, list[Any]]:
        """What tells statements apart, and what is bound: of the transition, then of each row."""
        now = when.now
        flat: list[Any] = [when.until, when.signals, *self._clock.binds().values()]
        shape: list[Any] = [when.until is None, when.signals == 0, when.is_light, when.is_end]
        for table, names, values, guard, was, _ in rows:
            given = [_NOW if value is now else value for value in values]
            flat += given
            flat += was
            shape += (table.name, names, *map(type, given), guard, *map(type, was))
        return tuple(shape), flat

    def prepared(self, rows: Sequence[Change], when: When, dialect: Dialect) -> Prepared:
        """The statement for these rows, the run's first.

        It gives one row, or none: the transition's time first; last, of an end, whether nobody else listens for it.
        """
        of = _Bound(["until", "signals", *self._clock.binds()])
        for number, row in enumerate(rows):
            of.add(number, row, when.now)
        extras = [self._parts.database.async_commit() if when.is_light else None]
        extras.append(self._nobody_listens if when.is_end else None)
        statement = _build(self._parts, rows, when).add_columns(*(each for each in extras if each is not None))
        ready = Ready(statement, dialect)
        return Prepared(ready, ready.picks(of.places, of.processes), of.moments)


@dataclass(slots=True)
class _Bound:
    """Where in the list what is bound is found, by its name."""

    names: list[str]
    places: dict[str, int] = field(init=False)
    moments: list[int] = field(default_factory=list)
    processes: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = {name: place for place, name in enumerate(self.names)}

    def add(self, number: int, row: Change, now: Moment) -> None:
        """The next row."""
        named = [(f"new{number}_{name}", value) for name, value in zip(row.names, row.values, strict=True)]
        named += [(f"old{number}_{name}", value) for name, value in zip(row.guard or (), row.was, strict=True)]
        for name, value in named:
            place = len(self.names)
            self.names.append(name)
            self.places[name] = place
            if isinstance(value, Moment) and value is not now:
                self.moments.append(place)
            elif isinstance(value, Enum):
                self.processes[name] = attrgetter("_value_")  # a choice of ours: nothing about it is to be checked


def _build(parts: Parts, rows: Sequence[Change], when: When) -> Select[Any]:
    schema, clock = parts.schema, parts.clock
    run_id: Any = bindparam(_RUN_ID, type_=schema.run.c.id.type)
    untaken = (schema.signal.c.run_id == run_id, schema.signal.c.taken_by.is_(None))
    told = select(clock.now.label("now")).cte("clock")
    still: list[ColumnElement[bool]] = [not_(exists().where(*untaken))]
    if when.signals:
        still = [select(func.count()).where(*untaken).scalar_subquery() == bindparam("signals", type_=BigInteger())]
    if when.until is not None:
        still.append(told.c.now < bindparam("until", type_=Instant()))
    first, *others = rows
    assert first.guard is not None
    run = (
        update(first.table)
        .where(*guards(first.table, _guard(first), "old0_"), *still)
        .values(dict(_values(first, 0, told, when.now)))
        .returning(told.c.now.label("now"))
        .cte("run")
    )
    written: list[CTE] = []
    more: list[ColumnElement[Any]] = []
    for number, row in enumerate(others, start=1):
        if row.guard is None:
            named = list(_values(row, number, run, when.now))
            chosen = select(*(value for _, value in named)).select_from(run)
            written.append(insert(row.table).from_select([name for name, _ in named], chosen).cte(f"row{number}"))
            continue
        guard = [row.table.c.run_id == run_id, *guards(row.table, _guard(row), f"old{number}_")]
        changed = update(row.table).where(*guard, run.c.now.is_not(None))
        changed = changed.values(dict(_values(row, number, run, when.now)))
        written.append(changed.returning(literal_column("1").label("one")).cte(f"row{number}"))
        # Of a row that is no longer so, this divides by zero.
        more.append(literal_column(f"1 / coalesce((SELECT one FROM row{number}), 0)").label(f"met{number}"))
    return select(run.c.now, *more).add_cte(*written)


def _guard(row: Change) -> dict[str, Any]:
    """Without the run that it is of: that is bound once for all rows."""
    return {name: value for name, value in zip(row.guard or (), row.was, strict=True) if name != "run_id"}


def _values(row: Change, number: int, told: CTE, now: Moment) -> Iterator[tuple[str, ColumnElement[Any]]]:
    """A row's columns and what is written there; of a new one, those that stay empty are left out."""
    for name, value in zip(row.names, row.values, strict=True):
        column, bound = row.table.c[name], f"new{number}_{name}"
        if name == "run_id":
            yield name, bindparam(_RUN_ID, type_=column.type)
        elif value is now:
            yield name, told.c.now
        elif isinstance(value, Moment):
            yield name, _later(told, bound)
        elif value is not None:
            yield name, bindparam(bound, type_=column.type)
        elif row.guard is not None:
            yield name, literal_column("NULL", column.type)
    for name, sql in row.fixed.items():
        yield name, literal_column(sql, row.table.c[name].type)


def _later(told: CTE, bound: str) -> ColumnElement[datetime]:
    added: Any = bindparam(bound, type_=BigInteger())
    return told.c.now.op("+", return_type=Instant())(added.op("*")(literal_column("interval '1 microsecond'")))
