"""The private servers of a chaos, and what can be done to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Protocol

import psycopg2
import pymysql
import redis
from sqlalchemy import make_url

from tests.servers import PrivateMariadb, PrivatePostgres, PrivateRabbit, PrivateRedis

QUEUE = "celery"


class Broker(Protocol):
    """What a broker has to put up with."""

    settings: dict[str, Any]
    """Of the Celery app."""

    def flush(self) -> None:
        """Every message is gone."""

    def down(self) -> None:
        """It dies, with every message in it."""

    def up(self) -> None:
        """It comes back empty."""


class Database(Protocol):
    """What a database has to put up with."""

    url: str

    def cut(self) -> int:
        """It ends every connection but ours; how many."""

    def down(self, *, hard: bool) -> None:
        """It goes in an orderly way, or dies."""

    def up(self) -> None:
        """It comes back with what was committed."""

    def open_transactions(self) -> list[Any]:
        """Of others, at this moment."""


class Redis:
    """A private Redis without persistence, which soon delivers again what a dead worker held."""

    def __init__(self, server: PrivateRedis) -> None:
        self._server = server
        options = {"visibility_timeout": 5, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
        self.settings = {"broker_url": server.url, "broker_transport_options": options}

    def flush(self) -> None:
        with closing(redis.Redis.from_url(self._server.url)) as client:
            client.flushall()

    def down(self) -> None:
        self._server.kill()

    def up(self) -> None:
        self._server.start()


class Rabbit:
    """A private RabbitMQ node, which forgets queues and messages when it goes down."""

    def __init__(self, server: PrivateRabbit) -> None:
        self._server = server
        self.settings = {"broker_url": server.url}

    def flush(self) -> None:
        self._server.ctl("purge_queue", QUEUE)

    def down(self) -> None:
        self._server.ctl("stop_app")
        self._server.ctl("force_reset")

    def up(self) -> None:
        self._server.ctl("start_app")


class Postgres:
    """A private PostgreSQL."""

    def __init__(self, server: PrivatePostgres) -> None:
        self._server, self.url = server, server.url

    def cut(self) -> int:
        mine = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ((count,),) = self._ask(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {mine}")
        return int(count)

    def down(self, *, hard: bool) -> None:
        if hard:
            self._server.kill()
        else:
            self._server.stop()

    def up(self) -> None:
        self._server.start()

    def open_transactions(self) -> list[Any]:
        return self._ask(
            "SELECT pid, state, query FROM pg_stat_activity WHERE starts_with(state, 'idle in transaction') "
            "OR (state = 'active' AND xact_start < now() - interval '5 seconds' AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend')"
        )

    def _ask(self, statement: str) -> list[Any]:
        plain = make_url(self.url).set(drivername="postgresql").render_as_string(hide_password=False)
        with closing(psycopg2.connect(plain)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(statement)
            return cursor.fetchall()


class Mariadb:
    """A private MariaDB."""

    def __init__(self, server: PrivateMariadb) -> None:
        self._server, self.url = server, server.url

    def cut(self) -> int:
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            others = "id <> connection_id() AND db IS NOT NULL"
            cursor.execute(f"SELECT id FROM information_schema.processlist WHERE {others}")
            ids = [row[0] for row in cursor.fetchall()]
            for each in ids:
                try:
                    cursor.execute(f"KILL {int(each)}")
                except pymysql.err.OperationalError as error:
                    if error.args[0] != pymysql.constants.ER.NO_SUCH_THREAD:
                        raise
            return len(ids)

    def down(self, *, hard: bool) -> None:
        if hard:
            self._server.kill()
        else:
            self._server.stop()

    def up(self) -> None:
        self._server.start()

    def open_transactions(self) -> list[Any]:
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT trx_mysql_thread_id, trx_state, trx_query FROM information_schema.innodb_trx")
            return list(cursor.fetchall())

    def _connect(self) -> pymysql.connections.Connection[Any]:
        url = make_url(self.url)
        return pymysql.connect(host=url.host or "", port=url.port or 0, user=url.username, autocommit=True)


@contextmanager
def servers(broker: str, database: str) -> Iterator[tuple[Broker, Database]]:
    """Private ones of these kinds, running; each on a port of its own."""
    with ExitStack() as stack:
        queue: Broker = (
            Redis(stack.enter_context(PrivateRedis()))
            if broker == "redis"
            else Rabbit(stack.enter_context(PrivateRabbit()))
        )
        kept: Database = (
            Postgres(stack.enter_context(PrivatePostgres()))
            if database == "postgresql"
            else Mariadb(stack.enter_context(PrivateMariadb()))
        )
        yield queue, kept
