"""The store inside a caller's transaction: its statements on the caller's connection, never a commit or rollback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Dialect, Engine, NullPool
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.util import LRUCache

from celery_saga.errors import DefinitionError, StoreUnavailable
from celery_saga.store.dialects import Database, Trouble
from celery_saga.store.following import Ending, after_commit
from celery_saga.store.session import GuardMissed, Sessions, Trace, Tx, refusal

T = TypeVar("T")

_TRIES = 20
_ASKING = frozenset(("execute", "executemany", "fetchone", "fetchmany", "fetchall", "nextset"))
_STATEMENTS = 500
"""How many compiled statements are kept for each driver."""
_ALIKE = frozenset({"mysql", "mariadb"})
DRIVERS = {
    "psycopg2": "psycopg2",
    "psycopg": "psycopg",
    "pymysql": "pymysql",
    "MySQLdb": "mysqldb",
    "sqlite3": "pysqlite",
}
"""SQLAlchemy's names of drivers, by the package of their connections."""


class CallersTransaction:
    """Stands where `Sessions` stands, over one connection that belongs to somebody else.

    Args:
        sessions: of the store; they lend the dialect of a database that has been spoken to.
        connection: a SQLAlchemy connection or session, Django's connection, or one of the driver, inside a transaction.
    """

    def __init__(self, sessions: Sessions, connection: Any) -> None:
        self.database: Database = sessions.database
        self.vault = sessions.vault
        self.trace: Trace | None = sessions.trace
        self.engine = sessions.engine
        self._connection = _as_sqlalchemy(sessions, connection)
        self._callers: Any = self._connection if _is_sqlalchemys(connection) else connection

    def after_commit(self, do: Callable[[], object]) -> Ending:
        """See `following.after_commit`; there must be one to tell of it: SQLAlchemy's or Django's connection."""
        return after_commit(self._callers, do)

    def write(
        self,
        name: str,
        work: Callable[[Tx], T],
        *,
        guarded: bool = False,
        fetches: bool = True,
        again: bool = False,
    ) -> T:
        """Do `work`, once: an error of the database has spoilt the caller's transaction.

        Args:
            guarded: a missed guard is undone by a savepoint and the work done again; the run is locked by then.
            fetches: False: what is stored elsewhere is not fetched.
            again: never so here.

        Raises:
            StoreUnavailable: the database is out of reach; the caller's transaction is lost with it.
            DBAPIError: a deadlock or a serialization failure, which the caller's transaction is to be repeated after.
        """
        for _ in range(_TRIES):
            try:
                if not guarded or self.database.one_writer:
                    return self._once(name, work, fetches=fetches)
                with self._connection.begin_nested():
                    return self._once(name, work, fetches=fetches)
            except GuardMissed as error:
                missed = error
        raise StoreUnavailable(f"{name}: the rows kept changing ({missed}); roll back and try again") from missed

    def read(self, name: str, work: Callable[[Tx], T]) -> T:
        """Do `work`, which only reads."""
        return self._once(name, work)

    def close(self) -> None:
        """The connection stays open: it is the caller's."""

    def after_fork(self) -> None:
        """A transaction does not survive a fork: there is nothing to do."""

    def _once(self, name: str, work: Callable[[Tx], T], *, fetches: bool = True) -> T:
        tx = Tx(self._connection, self.trace)
        try:
            return self.vault.carrying(lambda: work(tx), is_direct=True, fetches=fetches)
        except DBAPIError as error:
            is_conflict = self.database.trouble(error) is Trouble.CONFLICT
            told = None if is_conflict else refusal(self.database, error)
            if told is not None:
                raise told from error
            # After a conflict the caller's whole transaction is to be repeated, and the caller knows how.
            if _is_djangos(self._callers) and error.orig is not None:
                with self._callers.wrap_database_errors:
                    raise error.orig from None
            raise
        except StatementError as error:
            raise error.orig or error from None


class _Borrowed:
    """A connection of the driver that cannot be committed, rolled back or closed through us."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._connection, name)
        except AttributeError:
            if not _is_djangos(self._connection):
                raise
            return getattr(self._connection.connection, name)  # the driver's own

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """One that raises the driver's errors."""
        cursor = self._connection.cursor(*args, **kwargs)
        return _DriversCursor(cursor) if _is_djangos(self._connection) else cursor

    def commit(self) -> None:
        """The caller's business."""

    def rollback(self) -> None:
        """The caller's business."""

    def close(self) -> None:
        """The caller's business."""


class _DriversCursor:
    """A cursor of Django's whose errors are those of the driver, as SQLAlchemy and our dialects know them."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cursor, name)
        return _with_drivers_errors(found) if name in _ASKING else found


def _with_drivers_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            # Django wraps it, and keeps it as the cause.
            drivers = error.__cause__
            if drivers is None or type(drivers).__module__.partition(".")[0] not in DRIVERS:
                raise
        raise drivers

    return call


def _is_djangos(connection: Any) -> bool:
    return hasattr(connection, "ensure_connection")


def _is_sqlalchemys(connection: Any) -> bool:
    return isinstance(connection, Connection) or hasattr(connection, "get_bind")


def _as_sqlalchemy(sessions: Sessions, connection: Any) -> Connection:
    if hasattr(connection, "get_bind"):  # an ORM session
        connection = connection.connection()
    if isinstance(connection, Connection):
        _check(sessions, connection)
        return connection
    # Not create_engine: its pool would set the connection up as one of ours.
    pool = NullPool(lambda: _Borrowed(connection), reset_on_return=None)
    driver, options = _driver_of(sessions, connection)
    known = sessions.dialects.get((driver, bool(options)))
    dialect, compiled = known or (_dialect(sessions, driver, options), LRUCache(_STATEMENTS))
    engine = Engine(pool, dialect, sessions.engine.url, hide_parameters=True)
    borrowed = engine.connect().execution_options(compiled_cache=compiled)
    if known is None:
        # It learns of the server on this connection: one of ours might be refused, or go to another database in memory.
        dialect.initialize(borrowed)
        sessions.database.probe(borrowed)
        sessions.dialects[driver, bool(options)] = dialect, compiled
    return borrowed


def _driver_of(sessions: Sessions, connection: Any) -> tuple[str, dict[str, Any]]:
    """The caller's driver, which need not be ours, and with what options its dialect is made."""
    options: dict[str, Any] = {}
    if _is_djangos(connection):
        connection.ensure_connection()
        # Django has %s for every driver: where it logs queries it would stumble over anything else.
        options = {"paramstyle": "format"} if connection.vendor == "sqlite" else {}
        connection = connection.connection
    return DRIVERS.get(type(connection).__module__.partition(".")[0], sessions.engine.driver), options


def _dialect(sessions: Sessions, driver: str, options: dict[str, Any]) -> Dialect:
    url: URL = sessions.engine.url
    return sessions.database.engine(url.set(drivername=f"{url.get_backend_name()}+{driver}"), options).dialect


def _check(sessions: Sessions, connection: Connection) -> None:
    """Refuse a connection in whose transaction our rows cannot be.

    Raises:
        DefinitionError: it is closed, or goes to another kind of database; nothing was written.
    """
    if connection.closed:
        raise DefinitionError(
            "connection= is closed, so there is no transaction to take part in; nothing was written. Give the "
            "connection while it is open, or leave connection= out."
        )
    theirs, ours = connection.dialect.name, sessions.engine.dialect.name
    if theirs != ours and not {theirs, ours} <= _ALIKE:
        raise DefinitionError(
            f"connection= goes to {theirs}, the sagas are in {ours}; nothing was written. Both must be in one "
            "database, else they cannot commit together: see saga_database_url."
        )
