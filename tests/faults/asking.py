"""Rows of the sagas' database, whichever it is: statements as psycopg2 takes them, made over for the others."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import psycopg2
from sqlalchemy import create_engine, make_url
from sqlalchemy.pool import NullPool

_OPEN = {
    "postgresql": """SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND starts_with(state, 'idle in transaction')""",
    "mysql": """SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p
                ON p.id = t.trx_mysql_thread_id WHERE p.db = database() AND p.id <> connection_id()
                AND p.command = 'Sleep'""",
}


def libpq(url: str) -> str:
    """A URL of SQLAlchemy as psycopg2 takes it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def rows(url: str, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    """Rows of a statement with `%s`, on a connection that lives as long as the statement."""
    if make_url(url).get_backend_name() != "postgresql":
        return _rows_elsewhere(url, statement, values)
    with closing(psycopg2.connect(libpq(url))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return [] if cursor.description is None else cursor.fetchall()


def open_transactions(url: str) -> int:
    """Of other connections, how many are in a transaction and do nothing. On SQLite: how many hold it for writing."""
    backend = make_url(url).get_backend_name()
    if backend == "sqlite":
        rows(url, "BEGIN IMMEDIATE", ())  # waits for whoever holds it, and is told after a while
        return 0
    ((count,),) = rows(url, _OPEN["postgresql" if backend == "postgresql" else "mysql"], ())
    return int(count)


def _rows_elsewhere(url: str, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    flat: list[object] = []
    for value in values:
        flat.extend(value if isinstance(value, list) else [value])
    lists = iter([value for value in values if isinstance(value, list)])

    def listed(found: re.Match[str]) -> str:
        return "IN (" + ", ".join(["%s"] * len(next(lists))) + ")"

    words = re.sub(r"= ANY\(%s\)", listed, statement)
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        if engine.dialect.paramstyle == "qmark":
            words = words.replace("%s", "?")
        result = connection.exec_driver_sql(words, tuple(flat))
        found = [tuple(row) for row in result] if result.returns_rows else []
        connection.commit()
    return found
