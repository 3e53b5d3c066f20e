"""The nodes of these tests: processes of this machine, and containers where a Docker engine answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import docker
import psycopg2
import pytest
from celery import Celery
from docker.errors import DockerException
from pytest_celery import CeleryTestContainer, CeleryTestNode
from pytest_docker_tools import build, container

from celery_saga import CelerySaga
from celery_saga.client import binding
from celery_saga.store import migrate, open_store
from celery_saga.testing.servers.process import free_port
from tests.smoke import shipping
from tests.workers import wait_until

ROOT = Path(__file__).parents[2]
LEASE_S, SWEEP_S = 2.0, 0.5


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A plain run has one test, over Redis; RabbitMQ takes long to start."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not (
            item.name.startswith("test_a_run_outlives") and "celery_redis_broker" in item.name
        ):
            item.add_marker(pytest.mark.heavy)


@pytest.fixture(params=["local", "docker"])
def celery_nodes(request: pytest.FixtureRequest) -> str:
    """Each test runs on both, where both are there."""
    if request.param == "docker" and (trouble := _docker_trouble()):
        pytest.skip(trouble)
    return str(request.param)


@cache
def _docker_trouble() -> str:
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if host.startswith("unix://") and not Path(host.removeprefix("unix://")).exists():
        return f"no Docker engine: nothing at {host}"
    try:
        with closing(docker.from_env()) as client:
            client.ping()
    except DockerException as error:
        return f"no Docker engine answers: {error}"
    return ""


# -- the worker ---------------------------------------------------------------------------------------------------
@pytest.fixture
def default_worker_app_module() -> ModuleType:
    """Its source is what is wanted: it is never executed here."""
    spec = spec_from_file_location("tests.smoke.worker_app", Path(__file__).with_name("worker_app.py"))
    assert spec is not None
    return module_from_spec(spec)


@pytest.fixture
def default_worker_tasks(default_worker_tasks: set[ModuleType]) -> set[ModuleType]:
    return {*default_worker_tasks, shipping}


@pytest.fixture
def default_worker_env(default_worker_env: dict[str, str], celery_saga_postgres: CeleryTestNode) -> dict[str, str]:
    return {**default_worker_env, "SMOKE_DATABASE_URL": celery_saga_postgres.config()["url"]}


@pytest.fixture
def celery_setup_config(celery_setup_config: dict[str, Any]) -> dict[str, Any]:
    more = {"saga_lease": LEASE_S, "saga_sweep_interval": SWEEP_S, "broker_connection_retry_on_startup": True}
    return {**celery_setup_config, **more}


# On Docker: an image that has this checkout beside Celery.
celery_base_worker_image = build(path=str(ROOT), dockerfile="tests/smoke/Dockerfile", tag="celery-saga/smoke:worker")


# A container that was restarted has another port, unless it was given one.
@pytest.fixture
def default_redis_broker_ports() -> dict[str, int]:
    return {"6379/tcp": free_port()}


@pytest.fixture
def default_rabbitmq_broker_ports() -> dict[str, int]:
    return {"5672/tcp": free_port()}


# -- the database -------------------------------------------------------------------------------------------------
class PostgresContainer(CeleryTestContainer):
    """On Docker, PostgreSQL in the network of the other nodes."""

    ready_prompt = "database system is ready to accept connections"

    @property
    def celeryconfig(self) -> dict[str, Any]:
        there, here = self.attrs["Config"]["Hostname"], self.get_addr("5432/tcp")
        url = "postgresql+psycopg2://postgres:postgres@{}:{}/postgres"
        return {"url": url.format(there, 5432), "host_url": url.format(*here)}


postgres_container = container(
    image="postgres:16",
    ports={"5432/tcp": free_port()},
    environment={"POSTGRES_PASSWORD": "postgres"},
    network="{default_pytest_celery_network.name}",
    wrapper_class=PostgresContainer,
    timeout=60,
)


@pytest.fixture
def default_saga_postgres(request: pytest.FixtureRequest, celery_nodes: str) -> Any:
    return request.getfixturevalue("postgres_container" if celery_nodes == "docker" else "default_saga_postgres")


@pytest.fixture
def celery_saga_postgres(celery_saga_postgres: CeleryTestNode) -> CeleryTestNode:
    """With the tables, before a worker asks for them."""
    url = celery_saga_postgres.config()["host_url"]
    wait_until(lambda: _answers(url), 60, "a database that answers")
    store = open_store(url)
    migrate(store)
    store.close()
    return celery_saga_postgres


def _answers(url: str) -> bool:
    try:
        psycopg2.connect(url.replace("+psycopg2", "")).close()
    except psycopg2.OperationalError:
        return False
    return True


# -- the client ---------------------------------------------------------------------------------------------------
@pytest.fixture
def saga_client(celery_setup_app: Celery, celery_saga_postgres: CeleryTestNode) -> Iterator[CelerySaga]:
    """The tests' own end of the cluster."""
    client = CelerySaga(celery_setup_app, database_url=celery_saga_postgres.config()["host_url"])
    before = binding.set_resolver(lambda _saga: client)
    yield client
    binding.set_resolver(before)
    client.services.close()
    celery_setup_app.close()
