"""A pytest plug-in: pytest-celery's nodes as processes of this machine, so that its tests need no Docker.

`pytest_plugins = ["celery_saga.testing.local_nodes"]` in the top `conftest.py`; needs pytest-celery. Redis, RabbitMQ
and PostgreSQL are started from the programs that are installed, on ports of their own; workers run with the tests'
Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from uuid import uuid4

import pytest

from celery_saga.testing.sample_app import kept_out

with kept_out():
    from pytest_celery import (
        ALL_CELERY_BACKENDS,
        ALL_CELERY_BROKERS,
        CeleryTestBackend,
        CeleryTestBroker,
        CeleryTestNode,
        RedisTestBackend,
    )

    from celery_saga.testing.local_containers import (
        LocalContainer,
        LocalPostgres,
        LocalRabbit,
        LocalRedis,
        LocalWorker,
        WorkerProcess,
    )
from celery_saga.testing.servers import PrivatePostgres, PrivateRabbit, PrivateRedis

__all__ = [
    "celery_backend",
    "celery_broker",
    "celery_nodes",
    "celery_redis_backend",
    "celery_saga_postgres",
    "default_rabbitmq_broker",
    "default_redis_backend",
    "default_redis_broker",
    "default_saga_postgres",
    "default_worker_container",
    "local_postgres_server",
    "local_rabbitmq_server",
]

_RESET = """rabbit_vhost:delete(<<"/">>, <<"test">>), rabbit_vhost:add(<<"/">>, <<"test">>),
rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"/">>, <<".*">>, <<".*">>, <<".*">>, <<"test">>)."""


@pytest.fixture
def celery_nodes() -> str:
    """Where the nodes run: `local`; override it to return `docker`, and pytest-celery's own containers are taken."""
    return "local"


@pytest.fixture(params=sorted(ALL_CELERY_BROKERS))
def celery_broker(request: pytest.FixtureRequest, celery_nodes: str) -> Iterator[CeleryTestBroker]:
    """As pytest-celery's, in an order that is the same in every process: pytest-xdist asks for that."""
    broker = request.getfixturevalue(request.param)
    yield broker
    broker.teardown()


@pytest.fixture(params=sorted(ALL_CELERY_BACKENDS))
def celery_backend(request: pytest.FixtureRequest, celery_nodes: str) -> Iterator[CeleryTestBackend]:
    """As pytest-celery's, in a fixed order."""
    backend = request.getfixturevalue(request.param)
    yield backend
    backend.teardown()


@contextmanager
def _redis() -> Iterator[LocalRedis]:
    with PrivateRedis() as server:
        yield LocalRedis(server)


def _either(
    request: pytest.FixtureRequest, nodes: str, name: str, local: Callable[[], AbstractContextManager[LocalContainer]]
) -> Iterator[Any]:
    """The fixture's own value, or that of pytest-celery's fixture of the same name."""
    if nodes == "docker":
        yield request.getfixturevalue(name)
        return
    with local() as container:
        yield container


@pytest.fixture
def default_redis_broker(request: pytest.FixtureRequest, celery_nodes: str) -> Iterator[Any]:
    """An empty Redis for each test."""
    yield from _either(request, celery_nodes, "default_redis_broker", _redis)


@pytest.fixture
def default_redis_backend(request: pytest.FixtureRequest, celery_nodes: str) -> Iterator[Any]:
    """An empty Redis for each test, beside the broker's."""
    yield from _either(request, celery_nodes, "default_redis_backend", _redis)


class _Backend(RedisTestBackend):
    def teardown(self) -> None:
        """Without a look at every object of the process, which breaks where one of them is a proxy."""
        CeleryTestBackend.teardown(self)


@pytest.fixture
def celery_redis_backend(default_redis_backend: Any) -> Iterator[RedisTestBackend]:
    """The node of the result backend."""
    backend = _Backend(default_redis_backend)
    yield backend
    backend.teardown()


@pytest.fixture(scope="session")
def local_rabbitmq_server() -> Iterator[PrivateRabbit]:
    """One RabbitMQ for all tests: a start takes ten seconds and more. Not for use by tests, which get an empty one."""
    with PrivateRabbit() as server:
        yield server


@pytest.fixture
def default_rabbitmq_broker(request: pytest.FixtureRequest, celery_nodes: str) -> Iterator[Any]:
    """A RabbitMQ without queues and messages."""

    @contextmanager
    def emptied() -> Iterator[LocalRabbit]:
        server: PrivateRabbit = request.getfixturevalue("local_rabbitmq_server")
        if not server.is_running:
            server.stop()
            server.start()
        server.ctl("eval", " ".join(_RESET.split()))
        yield LocalRabbit(server)

    yield from _either(request, celery_nodes, "default_rabbitmq_broker", emptied)


@pytest.fixture(scope="session")
def local_postgres_server() -> Iterator[PrivatePostgres]:
    """One PostgreSQL for all tests, which get a database each."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def default_saga_postgres(request: pytest.FixtureRequest) -> Any:
    """An empty database for the sagas; on Docker override it with a container of yours."""
    server: PrivatePostgres = request.getfixturevalue("local_postgres_server")
    if not server.is_running:
        server.stop()
        server.start()
    name = f"test_{uuid4().hex[:12]}"
    server.make_database(name)
    return LocalPostgres(server, name)


@pytest.fixture
def celery_saga_postgres(default_saga_postgres: Any) -> CeleryTestNode:
    """Its node: `config()["url"]` is what the workers' `saga_database_url` takes, `["host_url"]` the tests'."""
    return CeleryTestNode(default_saga_postgres)


@pytest.fixture
def default_worker_container(request: pytest.FixtureRequest, celery_nodes: str) -> Iterator[Any]:
    """`celery worker` with the command, the environment and the files that pytest-celery's fixtures say."""

    @contextmanager
    def started() -> Iterator[LocalWorker]:
        value = request.getfixturevalue
        host = f"local{uuid4().hex[:7]}"
        content = value("default_worker_initial_content")
        process = WorkerProcess(value("default_worker_command"), value("default_worker_env"), content, host)
        with process as worker:
            yield _worker_class(value("default_worker_container_cls"))(worker, host)

    yield from _either(request, celery_nodes, "default_worker_container", started)


def _worker_class(project: type[Any]) -> type[LocalWorker]:
    """With the names, levels and queues of the project's own class of containers."""
    return LocalWorker if issubclass(LocalWorker, project) else type("LocalWorker", (LocalWorker, project), {})
