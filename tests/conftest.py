"""Fixtures that give each test a database, broker or server of its own."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from celery import _state

import celery_saga.runtime.app  # noqa: F401 - installs how sagas find their app, before a test looks at that
from celery_saga.client import binding
from tests.bytecode import keep_for_children
from tests.matrix import is_repetition
from tests.servers import (
    PrivatePostgres,
    PrivateRabbit,
    PrivateRedis,
    RedisPlace,
    fresh_mariadb_database,
    fresh_postgresql_database,
    fresh_rabbitmq_vhost,
    fresh_redis_place,
)
from tests.shares import is_one_after_another, pytest_xdist_make_scheduler  # noqa: F401 - a hook
from tests.short import is_left_out

pytest_plugins = ["celery_saga.testing.local_nodes"]

SERVER_FIXTURES = {
    "postgresql_url",
    "psycopg_url",
    "mariadb_url",
    "redis_place",
    "rabbitmq_url",
    "private_postgres",
    "private_rabbit",
    "private_redis",
}


def pytest_configure(config: pytest.Config) -> None:
    """Before the processes of xdist are started."""
    keep_for_children(config.rootpath / ".pytest_cache" / "bytecode")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a server, and what only repeats elsewhere what a plain run shows: `-m heavy` runs that."""
    for item in items:
        if SERVER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.servers)
        if is_repetition(item.nodeid) or is_left_out(item.nodeid):
            item.add_marker(pytest.mark.heavy)
    items.sort(key=lambda item: not is_one_after_another(item.nodeid))


@pytest.fixture(autouse=True, scope="module")
def old_objects_are_left_alone() -> Iterator[None]:
    """What a module leaves behind, compiled statements mostly, is not looked at by each later collection of garbage."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_binding_afterwards() -> Iterator[None]:
    """A test may bind sagas to an engine, and make an app the current one; the next one finds what was there before."""
    before, app = binding.set_resolver(None), getattr(_state._tls, "current_app", None)
    binding.set_resolver(before)
    yield
    binding.set_resolver(before)
    _state._tls.current_app = app


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty PostgreSQL database through psycopg2."""
    with fresh_postgresql_database("psycopg2") as url:
        yield url


@pytest.fixture
def psycopg_url() -> Iterator[str]:
    """An empty PostgreSQL database through psycopg 3."""
    with fresh_postgresql_database("psycopg") as url:
        yield url


@pytest.fixture
def mariadb_url() -> Iterator[str]:
    """An empty MariaDB database through PyMySQL."""
    with fresh_mariadb_database() as url:
        yield url


@pytest.fixture
def redis_place() -> Iterator[RedisPlace]:
    """A key prefix on the shared Redis."""
    with fresh_redis_place() as place:
        yield place


@pytest.fixture
def rabbitmq_url() -> Iterator[str]:
    """A vhost on the shared RabbitMQ."""
    with fresh_rabbitmq_vhost() as url:
        yield url


@pytest.fixture
def private_redis() -> Iterator[PrivateRedis]:
    """A Redis that the test may kill; running."""
    with PrivateRedis() as server:
        yield server


@pytest.fixture
def private_postgres() -> Iterator[PrivatePostgres]:
    """A PostgreSQL that the test may kill; running."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def private_rabbit() -> Iterator[PrivateRabbit]:
    """A RabbitMQ that the test may kill; running."""
    with PrivateRabbit() as server:
        yield server
