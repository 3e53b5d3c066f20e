"""Statements made ready: compiled once for a driver, executed on its cursor, and kept planned by the server.

For the few statements of which every step takes some. SQLAlchemy builds them, and its types read and write the values;
what is left out is its work of each execution, and the server's of parsing and planning, which take longer than all
that is done with a step's rows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Dialect, Executable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

__all__ = ["DIRECT", "Pick", "Process", "Ready"]

DIRECT = "celery_saga_direct"
"""In what a pool keeps of a connection: no pooler is between it and the server, which may keep statements for it."""
_KEPT = "celery_saga_kept"
_MOST = 30
"""Of each connection the server keeps so many, each of which takes some 300 kB there."""
_BIND = re.compile(r"%\((\w+)\)s")
_FORGOTTEN = frozenset({"26000", "0A000"})
"""SQLSTATEs: the server has no such statement any more; its tables have changed since it was planned."""

Values = Mapping[str, Any]
Process = Callable[[Any], Any]
Pick = tuple[int, Process | None]
"""Where a value is, in a list of what is there, and what makes of it what the driver takes."""


class Ready:
    """One statement, for one driver of PostgreSQL. Its rows come as lists.

    Args:
        statement: without lists among what is bound; it is compiled here, and not looked at again.
        dialect: of connections to the server that were used before.
    """

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        assert isinstance(compiled, SQLCompiler)
        self._dialect = dialect
        self._text = str(compiled.string)
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        processors: Any = compiled._bind_processors
        self._binds: Mapping[str, Process] = dict(processors)
        self._rows = [
            (number, process)
            for number, column in enumerate(compiled._result_columns)
            if (process := column.type.dialect_impl(dialect).result_processor(dialect, None)) is not None
        ]
        self._names = list(dict.fromkeys(_BIND.findall(self._text)))
        self._name = f"saga_{hashlib.sha256(self._text.encode()).hexdigest()[:24]}"
        marks = {name: f"${number}" for number, name in enumerate(self._names, start=1)}
        types = ", ".join(_type_of(compiled.binds[name].type) for name in self._names)
        kept = f"{self._name} ({types})" if types else self._name
        # psycopg keeps statements by itself.
        self._prepare = f"PREPARE {kept} AS {self._text % marks}" if dialect.driver == "psycopg2" else ""
        listed = ", ".join("%s" for _ in self._names)
        self._execute = f"EXECUTE {self._name}({listed})" if listed else f"EXECUTE {self._name}"

    def bound(self, values: Values) -> list[Any]:
        """What to execute it with, of these values by name."""
        given = {**self._fixed, **values}
        processes = self._binds
        return [processes[name](given[name]) if name in processes else given[name] for name in self._names]

    def picks(self, places: Mapping[str, int], processes: Mapping[str, Process]) -> list[Pick]:
        """The same from a list, for whoever knows where in it each name has its value.

        Args:
            processes: by name, in place of those of the columns' types.
        """
        return [(places[name], processes.get(name) or self._binds.get(name)) for name in self._names]

    def run(self, driver: Any, info: dict[Any, Any], bound: Sequence[Any]) -> Sequence[list[Any]]:
        """Execute it; the rows, none where it gives none.

        Args:
            driver: the connection; what it has begun, if anything, is left as it is.
            info: what the pool keeps of the connection.
            bound: as of `bound` or `picks`.
        Raises:
            DBAPIError: as from SQLAlchemy.
        """
        cursor = driver.cursor()
        try:
            self._ask(cursor, info, bound)
            rows = cursor.fetchall() if cursor.description is not None else ()
        except self._dialect.loaded_dbapi.Error as error:
            raise self.told(error, driver, cursor) from error
        finally:
            cursor.close()
        return [self._read(row) for row in rows]

    def _read(self, row: Sequence[Any]) -> list[Any]:
        made = list(row)
        for number, process in self._rows:
            if made[number] is not None:
                made[number] = process(made[number])
        return made

    def _ask(self, cursor: Any, info: dict[Any, Any], bound: Sequence[Any]) -> None:
        kept: set[str] = info.setdefault(_KEPT, set())
        if not info.get(DIRECT) or (len(kept) >= _MOST and self._name not in kept):
            cursor.execute(self._text, self._named(bound))
            return
        if not self._prepare:
            cursor.execute(self._text, self._named(bound), prepare=True)
            kept.add(self._name)
            return
        try:
            if self._name not in kept:
                cursor.execute(self._prepare)
                kept.add(self._name)
            cursor.execute(self._execute, bound)
        except self._dialect.loaded_dbapi.Error as error:
            if getattr(error, "pgcode", None) not in _FORGOTTEN:
                raise
            info[DIRECT] = False  # whatever it is that takes them away, it will again
            cursor.execute(self._text, self._named(bound))

    def _named(self, bound: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self._names, bound, strict=True))

    def told(self, error: Any, driver: Any = None, cursor: Any = None) -> DBAPIError:
        """An error of the driver as SQLAlchemy would raise it; without a connection none could be made."""
        dialect = self._dialect
        lost = dialect.is_disconnect(error, driver, cursor)
        made: Any = DBAPIError.instance(
            self._text,
            None,
            error,
            dialect.loaded_dbapi.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=dialect,
        )
        return made  # type: ignore[no-any-return]


def _type_of(type_: TypeEngine[Any]) -> str:
    """What a bound value is declared as to the server; it could not tell it from each place where that is used."""
    try:
        return _TYPES.get(getattr(type_, "impl_instance", type_).python_type, "unknown")
    except NotImplementedError:
        return "unknown"


_TYPES = {str: "text", int: "bigint", float: "double precision", bool: "boolean", datetime: "timestamptz"}
