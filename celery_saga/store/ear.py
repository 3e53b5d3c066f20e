"""Hears of ends of runs over PostgreSQL's LISTEN: one connection of its own, and a test that it hears anything."""

from __future__ import annotations

import hashlib
import time
import uuid
from contextlib import suppress
from typing import Any

from sqlalchemy import Boolean, Connection, Engine, bindparam, literal_column, text
from sqlalchemy.sql import Executable
from sqlalchemy.sql.elements import ColumnElement

__all__ = ["Ear", "Place", "nobody_listens", "ring_statement"]

_TEST_S = 2.0


class Place:
    """Where the ends of one set of tables are told: a channel, and an advisory lock that every listener shares.

    Args:
        prefix: of the tables.
    """

    def __init__(self, prefix: str) -> None:
        digest = hashlib.sha256(f"celery_saga:{prefix}".encode()).digest()
        self.channel = f"saga_{digest[:8].hex()}"
        self.lock = int.from_bytes(digest[8:16], "big", signed=True)


def ring_statement(place: Place) -> Executable:
    """Tell the end of a run, where somebody listens.

    NOTIFY takes a lock of the whole database, from before the commit's flush to after it, so that all notifying
    commits queue up. So it is a transaction of its own that flushes nothing, after the run's; and where the shared lock
    of the listeners is free nobody listens, and nothing is written.
    """
    return text(
        f"SELECT CASE WHEN pg_try_advisory_xact_lock({place.lock}) THEN NULL "
        f"WHEN set_config('synchronous_commit', 'off', true) IS NULL THEN NULL "
        f"ELSE pg_notify('{place.channel}', :run_id) END"
    ).bindparams(bindparam("run_id"))


def nobody_listens(place: Place) -> ColumnElement[bool]:
    """For the very transaction that ends a run: true where its end need not be told.

    Who begins to listen before that is committed waits for the lock, and then asks.
    """
    return literal_column(f"pg_try_advisory_xact_lock({place.lock})", Boolean).label("nobody_listens")


class Ear:
    """A connection that listens. Not shared between threads.

    Through PgBouncer in transaction mode LISTEN is accepted and nothing ever comes. So a notification is sent on
    another connection first, and only once it has come is this one relied upon.

    Args:
        engine: lends the connection, which is its no more afterwards.
        place: what to listen to.
    Raises:
        DBAPIError: it cannot be opened.
    """

    def __init__(self, engine: Engine, place: Place) -> None:
        self._place = place
        self._word = f"test {uuid.uuid4().hex}"
        self._heard: list[str] = []
        self._driver: Any = None
        self._connection: Connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            self._connection.detach()
            driver: Any = self._connection.connection.dbapi_connection
            self._driver = driver
            if hasattr(driver, "add_notify_handler"):  # psycopg 3: what comes during a statement
                driver.add_notify_handler(lambda notify: self._heard.append(notify.payload))
            self._connection.exec_driver_sql(f"LISTEN {place.channel}")
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
                other.execute(text("SELECT pg_notify(:channel, :word)"), {"channel": place.channel, "word": self._word})
        except BaseException:
            self.close()
            raise
        self._test_until_s = time.monotonic() + _TEST_S
        self.is_live = False

    @property
    def is_deaf(self) -> bool:
        """The test has not come back in time."""
        return not self.is_live and time.monotonic() > self._test_until_s

    def fileno(self) -> int:
        """To wait for: readable when something came, or when the connection is gone."""
        number: int = self._driver.fileno()
        return number

    def take(self) -> list[str]:
        """Ids of runs that have ended; waits for nothing.

        Raises:
            Exception: of the driver; the connection is gone.
        """
        if hasattr(self._driver, "poll"):
            self._driver.poll()
            self._heard += [each.payload for each in self._driver.notifies]
            self._driver.notifies.clear()
        else:
            self._driver.pgconn.consume_input()
            while (notify := self._driver.pgconn.notifies()) is not None:
                self._heard.append(notify.extra.decode())
        heard, self._heard = self._heard, []
        if not self.is_live and self._word in heard:
            # Held as long as this connection: it ends with the process, whatever ends that.
            self._connection.exec_driver_sql(f"SELECT pg_advisory_lock_shared({self._place.lock})")
            self.is_live = True
        return [each for each in heard if each != self._word]

    def close(self) -> None:
        """Close the connection, and with it end the lock and the listening."""
        for end in (self._connection.close, getattr(self._driver, "close", None)):
            with suppress(Exception):  # it may be gone already
                if end is not None:
                    end()
