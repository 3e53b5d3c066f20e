"""What the store asks of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar

from sqlalchemy import URL, BindParameter, Connection, CursorResult, Engine, NullPool, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.elements import ColumnElement


class Trouble(Enum):
    """What an error of the database means for the transaction that met it."""

    CONFLICT = "conflict"  # deadlock, serialization failure: again at once
    LOCKED = "locked"  # waited too long for a lock: again
    LOST = "lost"  # the connection or the server is gone: again on another connection
    ABSENT = "absent"  # there is no database of that name
    SCHEMA = "schema"  # a table or column is missing
    OTHER = "other"


POOL: Mapping[str, Any] = {
    "pool_size": 1,
    "max_overflow": 9,
    "pool_recycle": 1800,
    "pool_timeout": 10,
    "pool_use_lifo": True,
}


WRITES = "celery_saga_writes"
"""The execution option of a connection whose transactions write."""

UNPOOLED: Mapping[str, Any] = {"poolclass": NullPool}
"""Engine options for connections that are closed at once, so that nothing holds a database that is to be dropped."""


def pool_options(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A small pool for each process, unless the user chose another kind of pool."""
    return {} if "poolclass" in given else POOL


class Database(ABC):
    """One kind of database: how to connect, tell the time, pick and explain errors."""

    skips_locked: ClassVar[bool] = True
    """Whether rows locked by others can be left out of a read."""
    looks_up_alternatives: ClassVar[bool] = True
    """Whether alternatives (OR), to each of which an index leads, are looked up by those indexes."""
    one_writer: ClassVar[bool] = False
    """Whether a writer has the database to itself, so that no guard can be missed."""
    begins_by_itself: ClassVar[bool] = True
    """Whether reads alone need no transaction of ours: then they run in autocommit, without BEGIN and ROLLBACK."""
    reads_options: ClassVar[Mapping[str, Any]] = {"isolation_level": "AUTOCOMMIT"}
    """Options of the connections on which reads are done where they need no transaction; see also `autocommit`."""
    writes_together: ClassVar[bool] = False
    """Whether one statement can hold several writes."""
    listens: ClassVar[bool] = False
    """Whether it can tell one connection what another one has done."""
    one_connection: bool = False
    """Whether all threads share one connection, which then needs a lock."""

    @abstractmethod
    def engine(self, url: URL, options: Mapping[str, Any]) -> Engine:
        """An engine with our isolation level and time-outs; `options` of the user go over our own."""

    @abstractmethod
    def trouble(self, error: DBAPIError) -> Trouble:
        """What this error means."""

    @abstractmethod
    def insert_unless_there(self, table: Table) -> Insert:
        """An INSERT that writes nothing, and fails nothing, where the key exists; see `landed`."""

    def landed(self, result: CursorResult[Any]) -> bool:
        """Whether `insert_unless_there` wrote its row."""
        return result.rowcount == 1

    def now(self) -> ColumnElement[datetime] | None:
        """The time of the moment at which it is evaluated; None: the host's clock is the database's."""
        return None

    def fixed_now(self) -> ColumnElement[datetime] | None:
        """The time at which the statement began, which an index can be searched by."""
        return None

    def later(self, delay_s: BindParameter[float]) -> ColumnElement[datetime] | None:
        """`now()` plus a delay in seconds."""
        return None

    def autocommit(self, driver: Any) -> AbstractContextManager[object]:
        """Within the block each statement on this connection of the driver is a transaction of its own.

        Where that takes more than a word to the driver, `reads_options` have done it already.
        """
        return nullcontext()

    def lock_extras(self) -> list[ColumnElement[Any]]:
        """Columns to add to the locking read: settings for this transaction alone that cost no round trip."""
        return []

    def async_commit(self) -> ColumnElement[Any] | None:
        """A column that lets this transaction commit before it is on disk; None where there is no such thing."""
        return None

    def probe(self, connection: Connection) -> None:  # noqa: B027 - nothing to learn from most
        """Learn from a first connection what this server can do."""

    def lock_migrations(self, connection: Connection, name: str) -> None:  # noqa: B027 - a writer may be alone
        """Hold off other migrations of these tables until `unlock_migrations`, or the end of the transaction."""

    def unlock_migrations(self, connection: Connection, name: str) -> None:  # noqa: B027 - most end with it
        """Let the next one migrate."""
