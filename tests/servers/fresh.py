"""A place of one's own on a shared server: a database, a vhost, a key prefix, removed afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
import pymysql
import redis
from sqlalchemy import URL, make_url

from tests.servers.shared import require, unique_name
from tests.servers.vhosts import VHOSTS


def with_driver(url: str, driver: str) -> str:
    """The same database through another driver: `psycopg2`, `psycopg`, `pymysql`."""
    parts = make_url(url)
    return _text(parts.set(drivername=f"{parts.get_backend_name()}+{driver}"))


def _text(url: URL) -> str:
    return url.render_as_string(hide_password=False)


@contextmanager
def fresh_postgresql_database(driver: str = "psycopg2") -> Iterator[str]:
    """An empty PostgreSQL database; yields its SQLAlchemy URL.

    Dropped at the end even when a connection was left open, which is then cut.
    """
    server = make_url(require("postgresql"))
    name = unique_name()
    # template0, because nobody can be connected to it: template1 in use makes CREATE fail.
    _on_postgresql(server, f'CREATE DATABASE "{name}" TEMPLATE template0')
    try:
        yield _text(server.set(drivername=f"postgresql+{driver}", database=name))
    finally:
        _on_postgresql(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _on_postgresql(server: URL, statement: str) -> None:
    plain = _text(server.set(drivername="postgresql"))
    with closing(psycopg2.connect(plain)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


@contextmanager
def fresh_mariadb_database() -> Iterator[str]:
    """An empty MariaDB database in utf8mb4; yields its SQLAlchemy URL. Dropped at the end."""
    server = make_url(require("mariadb"))
    name = unique_name()
    with closing(_mariadb(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
    try:
        here = server.set(drivername="mysql+pymysql", database=name)
        yield _text(here.update_query_dict({"charset": "utf8mb4"}))
    finally:
        with closing(_mariadb(server)) as connection, connection.cursor() as cursor:
            _cut_mariadb_connections(cursor, name)
            cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")


def _mariadb(server: URL) -> pymysql.connections.Connection[Any]:
    return pymysql.connect(
        host=server.host or "127.0.0.1",
        port=server.port or 3306,
        user=server.username or "root",
        password=server.password or "",
        charset="utf8mb4",
        autocommit=True,
    )


def _cut_mariadb_connections(cursor: Any, database: str) -> None:
    """End what still uses the database: an open transaction would make DROP wait for ever."""
    cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (database,))
    for (connection_id,) in cursor.fetchall():
        try:
            cursor.execute(f"KILL {int(connection_id)}")
        except pymysql.err.OperationalError as error:
            if error.args[0] != pymysql.constants.ER.NO_SUCH_THREAD:
                raise


@contextmanager
def fresh_rabbitmq_vhost() -> Iterator[str]:
    """A vhost of one's own; yields its AMQP URL. Deleted with all its queues, soon after or when the process ends.

    Needs `rabbitmqctl` for the server's node, so the server must be on this machine.
    """
    server = require("rabbitmq")
    name = VHOSTS.take(server)
    try:
        yield _text(make_url(server).set(database=name))
    finally:
        VHOSTS.done(name)


@dataclass(frozen=True)
class RedisPlace:
    """A key prefix of one's own on a shared Redis, as broker and as result backend.

    A prefix rather than a numbered database: there are sixteen of those and any number of tests.
    """

    url: str
    prefix: str

    @property
    def settings(self) -> dict[str, Any]:
        """What a Celery app needs to stay inside the prefix, as broker and as result backend."""
        options = {"global_keyprefix": self.prefix}
        return {
            "broker_url": self.url,
            "broker_transport_options": dict(options),
            "result_backend": self.url,
            "result_backend_transport_options": dict(options),
        }

    def keys(self) -> list[str]:
        """Every key inside the prefix now, in alphabetical order."""
        with closing(redis.Redis.from_url(self.url)) as client:
            return sorted(key.decode() for key in client.scan_iter(match=f"{self.prefix}*", count=1000))

    def clear(self) -> None:
        """Delete every key inside the prefix, and no other."""
        keys = self.keys()
        with closing(redis.Redis.from_url(self.url)) as client:
            for key in keys:
                client.delete(key)


@contextmanager
def fresh_redis_place() -> Iterator[RedisPlace]:
    """A key prefix of one's own on the shared Redis; its keys are deleted at the end."""
    place = RedisPlace(require("redis"), f"{unique_name()}:")
    try:
        yield place
    finally:
        place.clear()
