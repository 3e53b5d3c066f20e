"""Options of the database engine that would break it, and SQLite where it does not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from celery_saga.runtime.guard import Role
from tests.guard.world import findings, make_app

SERVER = "postgresql+json://nobody@127.0.0.1/db"  # a database that is not asked
SQLITE = {"SQLITE_IN_MEMORY", "SQLITE_SEVERAL_HOSTS", "SQLITE_ONE_WRITER"}
ENGINE = {
    "ENGINE_POOL_ACROSS_FORKS",
    "ENGINE_STATIC_POOL",
    "ENGINE_CREATOR",
    "ENGINE_ISOLATION_LEVEL",
    "ENGINE_BEFORE_FORK",
}


def connect() -> Any:
    """Stands for a user's way to open a connection; no check calls it."""
    raise AssertionError("a check opened a connection")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"pool": QueuePool(connect)}, "ENGINE_POOL_ACROSS_FORKS"),
        ({"poolclass": StaticPool}, "ENGINE_STATIC_POOL"),
        ({"creator": connect}, "ENGINE_CREATOR"),
        ({"isolation_level": "REPEATABLE READ"}, "ENGINE_ISOLATION_LEVEL"),
        ({"isolation_level": "AUTOCOMMIT"}, "ENGINE_ISOLATION_LEVEL"),
    ],
)
def test_an_engine_option_that_breaks_transactions_or_forks_is_told(options: dict[str, object], code: str) -> None:
    app = make_app(saga_database_url=SERVER, saga_engine_options=options)

    assert ENGINE & findings(app).keys() == {code}


def test_engine_options_that_do_no_harm_are_not_told() -> None:
    options = {"poolclass": NullPool, "isolation_level": "READ COMMITTED", "connect_args": {}}

    assert not ENGINE & findings(make_app(saga_database_url=SERVER, saga_engine_options=options)).keys()
    assert not ENGINE & findings(make_app(saga_database_url=SERVER)).keys()


def test_sqlite_in_memory_may_have_one_shared_connection() -> None:
    options = {"poolclass": StaticPool, "isolation_level": "SERIALIZABLE"}
    app = make_app(saga_database_url="sqlite://", saga_engine_options=options)

    assert not ENGINE & findings(app).keys()


OPEN_POOL = """
from sqlalchemy import create_engine, text
engine = create_engine("{url}")
with engine.connect() as connection:
    connection.execute(text("SELECT 1"))
if {disposed}:
    engine.dispose()
from celery import Celery
from celery_saga.runtime.guard import Role, gather, inspect
app = Celery("checked", broker="memory://")
facts = gather(app, role=Role.WORKER, pool="{pool}", concurrency=1)
print(*(finding.code for finding in inspect(app, facts)))
"""


@pytest.mark.parametrize(
    ("pool", "disposed", "told"), [("prefork", False, True), ("prefork", True, False), ("solo", False, False)]
)
def test_a_users_engine_with_open_connections_before_the_fork_is_told(
    postgresql_url: str, pool: str, disposed: bool, told: bool
) -> None:
    script = OPEN_POOL.format(url=postgresql_url, pool=pool, disposed=disposed)

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert ("ENGINE_BEFORE_FORK" in ran.stdout.split()) is told


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite+pysqlite:///file:x?mode=memory&uri=true"])
def test_sqlite_in_memory_is_an_error_where_several_processes_need_it(url: str) -> None:
    assert "SQLITE_IN_MEMORY" in findings(make_app(saga_database_url=url), role=Role.WORKER)
    assert "SQLITE_IN_MEMORY" in findings(make_app(saga_database_url=url))
    eager = make_app(saga_database_url=url, task_always_eager=True)
    assert "SQLITE_IN_MEMORY" not in findings(eager)


def test_a_file_is_fit_for_one_process_on_one_host(tmp_path: Path) -> None:
    app = make_app(saga_database_url=f"sqlite:///{tmp_path}/saga.db")

    assert not SQLITE & findings(app, role=Role.WORKER, pool="solo").keys()
    assert not SQLITE & findings(app, role=Role.WORKER, pool="prefork", concurrency=1).keys()


def test_a_file_on_several_hosts_or_with_several_writers_is_told(tmp_path: Path) -> None:
    app = make_app(saga_database_url=f"sqlite:///{tmp_path}/saga.db")

    assert SQLITE & findings(app, pool="solo", nodes=2).keys() == {"SQLITE_SEVERAL_HOSTS"}
    assert SQLITE & findings(app, pool="prefork", concurrency=4).keys() == {"SQLITE_ONE_WRITER"}


def test_a_server_is_not_taken_for_sqlite(postgresql_url: str) -> None:
    app = make_app(saga_database_url=postgresql_url)

    assert not SQLITE & findings(app, pool="prefork", concurrency=2, nodes=2).keys()
