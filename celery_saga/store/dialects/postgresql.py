"""PostgreSQL through psycopg2 or psycopg 3; safe behind PgBouncer in transaction mode."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import Any, ClassVar
from zlib import crc32

from sqlalchemy import (
    URL,
    BindParameter,
    Connection,
    CursorResult,
    Engine,
    NullPool,
    Table,
    create_engine,
    event,
    func,
    literal,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.store.dialects.base import Database, Trouble, pool_options
from celery_saga.store.ready import DIRECT
from celery_saga.store.types import Instant

_IDLE_LIMIT = "60s"
_LEVEL = "read committed"
_CONFLICT = frozenset({"40001", "40P01"})
_LOCKED = frozenset({"55P03", "57014"})
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "53300", "25006", "25P03", "25P04"})
_ABSENT = "3D000"
_ABSENT_TEXT = re.compile(r'database "[^"]*" does not exist')
_SCHEMA = frozenset({"42P01", "42703", "3F000"})


class PostgreSql(Database):
    """PostgreSQL 12 and later."""

    listens = True
    reads_options: ClassVar[Mapping[str, Any]] = {}
    writes_together = True

    def engine(self, url: URL, options: Mapping[str, Any]) -> Engine:
        """No session state is set: a pooler may change the server connection. Nor does the driver keep statements.

        `ready.py` has the server keep a few, where there is no pooler.
        """
        if url.drivername in {"postgresql", "postgres"}:
            url = url.set(drivername="postgresql+psycopg2")
        given = dict(options)
        connect_args: dict[str, Any] = {
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,  # ms
            "client_encoding": "utf8",
        }
        if url.get_driver_name() == "psycopg":
            connect_args["prepare_threshold"] = None
        connect_args.update(given.pop("connect_args", {}))
        own: dict[str, Any] = {
            **pool_options(given),
            "use_native_hstore": False,  # else one query more for each connection
        }
        given.pop("isolation_level", None)
        engine = create_engine(url, **{**own, **given, "connect_args": connect_args})
        event.listen(engine, "connect", lambda driver, record: _set_up(engine, driver, record.info))
        return engine

    def autocommit(self, driver: Any) -> AbstractContextManager[object]:
        """By the driver alone: the server is told nothing, before or after."""
        return _autocommit(driver)

    def trouble(self, error: DBAPIError) -> Trouble:
        """By SQLSTATE; an error without one comes from the client's side of the connection."""
        code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
        if code in _CONFLICT:
            return Trouble.CONFLICT
        if code in _LOCKED:
            return Trouble.LOCKED
        # The drivers give no SQLSTATE to a connection that was not opened.
        if code == _ABSENT or (code is None and _ABSENT_TEXT.search(str(error.orig))):
            return Trouble.ABSENT
        if code in _SCHEMA:
            return Trouble.SCHEMA
        if error.connection_invalidated or code in _LOST or (code or "").startswith("08"):
            return Trouble.LOST
        if code is None and type(error.orig).__name__ in {"OperationalError", "InterfaceError"}:
            return Trouble.LOST
        return Trouble.OTHER

    def insert_unless_there(self, table: Table) -> Insert:
        """ON CONFLICT DO NOTHING: an error would end the caller's transaction."""
        return insert(table).on_conflict_do_nothing().returning(literal(1))

    def landed(self, result: CursorResult[Any]) -> bool:
        """By the row returned: not every driver counts the rows of an INSERT."""
        return result.first() is not None

    def now(self) -> ColumnElement[datetime]:
        """`clock_timestamp()`: `now()` is the beginning of the transaction, from before the lock."""
        return func.clock_timestamp(type_=Instant())

    def fixed_now(self) -> ColumnElement[datetime]:
        """`statement_timestamp()`."""
        return func.statement_timestamp(type_=Instant())

    def later(self, delay_s: BindParameter[float]) -> ColumnElement[datetime]:
        """`clock_timestamp()` plus an interval."""
        nothing: ColumnElement[int] = literal_column("0")
        interval = func.make_interval(*(nothing for _ in range(6)), delay_s)
        return self.now().op("+", return_type=Instant())(interval)

    def lock_extras(self) -> list[ColumnElement[Any]]:
        """A process that is stopped while it holds a run's lock loses it, instead of holding up that run for ever."""
        limit = f"set_config('idle_in_transaction_session_timeout', '{_IDLE_LIMIT}', true)"
        return [literal_column(limit).label("idle_limit")]

    def async_commit(self) -> ColumnElement[Any]:
        """`SET LOCAL synchronous_commit = off` as a function call."""
        return literal_column("set_config('synchronous_commit', 'off', true)").label("async_commit")

    def lock_migrations(self, connection: Connection, name: str) -> None:
        """An advisory lock that ends with the transaction, so that it works through a pooler."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": crc32(name.encode())})


@contextmanager
def _autocommit(driver: Any) -> Iterator[None]:
    driver.autocommit = True
    try:
        yield
    finally:
        with suppress(Exception):  # it is lost, and is given up where that is noticed
            driver.autocommit = False


def _set_up(engine: Engine, driver: Any, info: dict[Any, Any]) -> None:
    """Have transactions READ COMMITTED, and find out whether the server itself is at the other end.

    A pooler tells process ids of its own. Where READ COMMITTED is the server's default, nothing is set: psycopg2 would
    ask the server for its default again each time that it leaves autocommit, which is after every read.
    """
    with _autocommit(driver), driver.cursor() as cursor:
        cursor.execute("SELECT current_setting('default_transaction_isolation'), pg_backend_pid()")
        level, pid = cursor.fetchone()
    # A connection that is closed after its first use is not worth the keeping.
    info[DIRECT] = pid == driver.info.backend_pid and not isinstance(engine.pool, NullPool)
    if level != _LEVEL:
        engine.dialect.set_isolation_level(driver, "READ COMMITTED")
