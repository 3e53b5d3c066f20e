"""What a test gets on a shared server is empty, its own, and gone afterwards."""

from __future__ import annotations

import psycopg2
import pytest
import redis
from amqp.exceptions import NotAllowed
from celery import Celery
from kombu import Connection
from sqlalchemy import create_engine, inspect, text

from tests.servers import (
    SERVERS,
    fresh_mariadb_database,
    fresh_postgresql_database,
    fresh_rabbitmq_vhost,
    fresh_redis_place,
    require,
    with_driver,
)
from tests.servers.vhosts import VHOSTS

pytestmark = pytest.mark.servers


def test_a_fresh_postgresql_database_is_empty_for_both_drivers(postgresql_url: str) -> None:
    for url in (postgresql_url, with_driver(postgresql_url, "psycopg")):
        engine = create_engine(url)
        assert inspect(engine).get_table_names() == []
        engine.dispose()


def test_a_postgresql_database_is_dropped_though_a_connection_was_left_open() -> None:
    with fresh_postgresql_database() as url:
        engine = create_engine(url)
        left_open = engine.connect()
        left_open.execute(text("SELECT 1"))

    with pytest.raises(psycopg2.OperationalError, match="does not exist"):
        psycopg2.connect(url.replace("+psycopg2", ""))
    left_open.invalidate()
    left_open.close()
    engine.dispose()


def test_a_mariadb_database_is_dropped_though_a_transaction_holds_its_table() -> None:
    with fresh_mariadb_database() as url:
        engine = create_engine(url)
        left_open = engine.connect()
        left_open.execute(text("CREATE TABLE t (a VARCHAR(9))"))
        left_open.execute(text("INSERT INTO t VALUES ('🦊')"))
        database = engine.url.database

    root = create_engine(engine.url.set(database=""))
    with root.connect() as connection:
        names = connection.execute(text("SHOW DATABASES")).scalars().all()
    assert database not in names
    left_open.invalidate()
    left_open.close()
    engine.dispose()
    root.dispose()


def test_a_rabbitmq_vhost_takes_messages_and_is_gone_in_the_end() -> None:
    with fresh_rabbitmq_vhost() as url, Connection(url) as connection, connection.SimpleQueue("q") as queue:
        queue.put({"n": 1})
        assert queue.get(timeout=10).payload == {"n": 1}
    VHOSTS.close()  # as at the end of the process

    with pytest.raises(NotAllowed, match="not found"), Connection(url) as connection:
        connection.connect()


def test_an_app_in_a_redis_place_leaves_no_key_outside_it_and_none_behind() -> None:
    client = redis.Redis.from_url(require("redis"))
    with fresh_redis_place() as place:
        app = Celery("place", set_as_current=False)
        app.conf.update(place.settings)
        app.send_task("some.task", args=[1], queue=place.prefix + "queue")
        app.backend.store_result("an-id", 1, "SUCCESS")
        app.close()
        inside = place.keys()
        everywhere = [key.decode() for key in client.scan_iter(match=f"*{place.prefix}queue*")]

        assert any("an-id" in key for key in inside)
        assert set(everywhere) <= set(inside)
        assert len(everywhere) >= 1
    assert place.keys() == []
    client.close()


def test_a_missing_server_skips_at_home_and_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv(SERVERS["redis"].variable, "redis://127.0.0.1:1/0")

    with pytest.raises(pytest.skip.Exception, match="CELERY_SAGA_TEST_REDIS_URL"):
        require("redis")


def test_a_missing_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv(SERVERS["postgresql"].variable, "postgresql://postgres@127.0.0.1:1/postgres")

    with pytest.raises(pytest.fail.Exception, match="CI is set"):
        require("postgresql")
