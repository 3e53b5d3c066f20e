"""Private servers start, die, and come back on the same port."""

from __future__ import annotations

import psutil
import psycopg2
import pytest
import redis
from kombu import Connection
from sqlalchemy import create_engine, text

from tests.servers import PrivateMariadb, PrivatePostgres, PrivateRabbit, PrivateRedis

pytestmark = pytest.mark.servers


def test_a_killed_redis_comes_back_on_its_port_with_nothing_in_it(private_redis: PrivateRedis) -> None:
    client = redis.Redis.from_url(private_redis.url)
    client.set("a", 1)
    first_pid = private_redis.pid

    private_redis.kill()
    assert not psutil.pid_exists(first_pid)
    with pytest.raises(redis.ConnectionError):
        client.get("a")
    private_redis.start()

    assert client.get("a") is None
    client.close()


def test_a_frozen_redis_keeps_its_connections_and_answers_after_the_thaw(private_redis: PrivateRedis) -> None:
    client = redis.Redis.from_url(private_redis.url, socket_timeout=0.3, retry=None)
    client.set("a", 1)

    private_redis.freeze()
    with pytest.raises(redis.TimeoutError):
        client.get("a")
    private_redis.thaw()

    assert client.get("a") == b"1"
    client.close()


def test_a_killed_postgresql_comes_back_with_what_was_committed(private_postgres: PrivatePostgres) -> None:
    engine = create_engine(private_postgres.url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t AS SELECT 1 AS a"))
    pids = [process.pid for process in psutil.Process(private_postgres.pid).children()]

    private_postgres.kill()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    engine.dispose()
    private_postgres.start()

    with engine.connect() as connection:
        assert connection.execute(text("SELECT a FROM t")).scalar_one() == 1
    engine.dispose()


@pytest.mark.heavy
def test_a_killed_mariadb_comes_back_with_what_was_committed() -> None:
    with PrivateMariadb() as server:
        engine = create_engine(server.url)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE t AS SELECT 1 AS a"))
        engine.dispose()

        server.kill()
        server.start()

        with engine.connect() as connection:
            assert connection.execute(text("SELECT a FROM t")).scalar_one() == 1
        engine.dispose()


def test_a_stopped_postgresql_refuses_connections_until_it_is_started() -> None:
    with PrivatePostgres(settings={"max_connections": "10"}) as server:
        plain = server.url.replace("+psycopg2", "")
        server.stop()
        with pytest.raises(psycopg2.OperationalError, match="refused"):
            psycopg2.connect(plain)
        server.start()

        connection = psycopg2.connect(plain)
        with connection.cursor() as cursor:
            cursor.execute("SHOW max_connections")
            assert cursor.fetchone() == ("10",)
        connection.close()


def test_a_postgresql_with_ssl_encrypts_the_connection() -> None:
    with PrivatePostgres(ssl=True) as server:
        engine = create_engine(server.url)
        with engine.connect() as connection:
            query = text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            assert connection.execute(query).scalar_one() is True
        engine.dispose()


def test_a_killed_rabbitmq_keeps_persistent_messages_and_leaves_no_process() -> None:
    with PrivateRabbit("consumer_timeout = 4000") as server:
        with Connection(server.url) as connection, connection.SimpleQueue("q") as queue:
            queue.put({"n": 1})
        # RabbitMQ writes to disk in the background; this is answered after that.
        assert "q\t1" in server.ctl("list_queues", "name", "messages_persistent")
        assert "4000" in server.ctl("eval", "application:get_env(rabbit, consumer_timeout).")

        server.kill()
        server.start()

        with Connection(server.url) as connection, connection.SimpleQueue("q") as queue:
            assert queue.get(timeout=10).payload == {"n": 1}
        directory = str(server.directory)
    left = [p.pid for p in psutil.process_iter(["cmdline"]) if directory in " ".join(p.info["cmdline"] or [])]
    assert left == []
