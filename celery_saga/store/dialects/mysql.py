"""MariaDB and MySQL through PyMySQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    URL,
    BindParameter,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.mysql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.errors import StoreUnavailable
from celery_saga.store.dialects.base import Database, Trouble, pool_options
from celery_saga.store.types import Instant

_LOCK_WAIT_S = 10
_READ_TIMEOUT_S = 3 * _LOCK_WAIT_S
_MIGRATION_WAIT_S = 120
# Strict mode makes a value that does not fit an error, not a shorter value.
_SESSION = f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_S}, sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
# In UTC whatever the session's zone is: on a caller's connection it is the caller's.
_SYSDATE_IN_UTC = "TIMESTAMPADD(MICROSECOND, TIMESTAMPDIFF(MICROSECOND, NOW(6), UTC_TIMESTAMP(6)), SYSDATE(6))"
_CONFLICT = frozenset({1213, 1020})
_LOCKED = frozenset({1205, 3572, 1969, 3024, 1317})
_LOST = frozenset({2002, 2003, 2006, 2013, 2014, 2055, 1040, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1203})
_LOST |= {1290, 1836, 1792, 1927, 4031, 0}
_ABSENT = 1049
_SCHEMA = frozenset({1146, 1054})


class MySql(Database):
    """MariaDB 10.5 and later, MySQL 8 and later."""

    begins_by_itself = False  # autocommit is a statement of its own here

    def __init__(self) -> None:
        self._skips_locked = True

    @property
    def skips_locked(self) -> bool:  # type: ignore[override]
        """MariaDB learned SKIP LOCKED in 10.6."""
        return self._skips_locked

    def engine(self, url: URL, options: Mapping[str, Any]) -> Engine:
        """READ COMMITTED: the default would show the rows of before the lock."""
        if url.drivername in {"mysql", "mariadb"}:
            url = url.set(drivername=f"{url.drivername}+pymysql")
        given = dict(options)
        connect_args: dict[str, Any] = {"charset": "utf8mb4", "connect_timeout": 5}
        if url.get_driver_name() == "pymysql":
            connect_args |= {"read_timeout": _READ_TIMEOUT_S, "write_timeout": _READ_TIMEOUT_S}
        connect_args.update(given.pop("connect_args", {}))
        options = {**pool_options(given), **given, "connect_args": connect_args, "isolation_level": "READ COMMITTED"}
        engine = create_engine(url, **options)
        event.listen(engine, "connect", _on_connect)
        return engine

    def trouble(self, error: DBAPIError) -> Trouble:
        """By MySQL's error numbers."""
        args = getattr(error.orig, "args", ())
        code = args[0] if args and isinstance(args[0], int) else None
        if code in _CONFLICT:
            return Trouble.CONFLICT
        if code in _LOCKED:
            return Trouble.LOCKED
        if code == _ABSENT:
            return Trouble.ABSENT
        if code in _SCHEMA:
            return Trouble.SCHEMA
        if error.connection_invalidated or code in _LOST:
            return Trouble.LOST
        return Trouble.OTHER

    def insert_unless_there(self, table: Table) -> Insert:
        """INSERT IGNORE; what else it would ignore, the column types refuse beforehand."""
        return insert(table).prefix_with("IGNORE")

    def now(self) -> ColumnElement[datetime]:
        """`SYSDATE()`: `NOW()` is the beginning of the statement, from before a wait for a lock."""
        return literal_column(_SYSDATE_IN_UTC, Instant())

    def fixed_now(self) -> ColumnElement[datetime]:
        """`UTC_TIMESTAMP()`."""
        return literal_column("UTC_TIMESTAMP(6)", Instant())

    def later(self, delay_s: BindParameter[float]) -> ColumnElement[datetime]:
        """`SYSDATE()` plus microseconds."""
        microseconds = func.round(delay_s * 1_000_000)
        return func.timestampadd(literal_column("MICROSECOND"), microseconds, self.now(), type_=Instant())

    def probe(self, connection: Connection) -> None:
        """MariaDB before 10.6 waits for locked rows instead."""
        dialect: Any = connection.dialect
        if dialect.is_mariadb and dialect.server_version_info < (10, 6):
            self._skips_locked = False

    def lock_migrations(self, connection: Connection, name: str) -> None:
        """A named lock of this connection: DDL commits implicitly, so a transaction's lock would not last."""
        wanted = {"name": _lock_name(name), "wait": _MIGRATION_WAIT_S}
        _set_read_timeout(connection, None)  # adding an index to a large table takes longer
        if connection.execute(text("SELECT GET_LOCK(:name, :wait)"), wanted).scalar() != 1:
            raise StoreUnavailable(
                f"another process has been migrating for {_MIGRATION_WAIT_S} s; nothing was changed, try again"
            )

    def unlock_migrations(self, connection: Connection, name: str) -> None:
        """Release the named lock."""
        connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": _lock_name(name)})
        _set_read_timeout(connection, _READ_TIMEOUT_S)


def _lock_name(name: str) -> str:
    return f"celery_saga_{name}"[-64:]


def _set_read_timeout(connection: Connection, seconds: int | None) -> None:
    driver: Any = connection.connection.driver_connection
    if hasattr(driver, "_read_timeout"):  # PyMySQL has no public way
        driver._read_timeout = seconds


def _on_connect(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(_SESSION)
    cursor.close()
