"""What is told of the pool that runs the tasks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from celery.concurrency.thread import TaskPool as ThreadPool

from celery_saga.runtime.guard import Role, gather
from tests.guard.world import add_task, findings, make_app


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("prefork", "prefork"),
        ("processes", "prefork"),
        ("celery.concurrency.prefork:TaskPool", "prefork"),
        (ThreadPool, "threads"),
        ("gevent", "gevent"),
        (None, "prefork"),
    ],
)
def test_a_pool_is_known_by_its_name_its_path_and_its_class(given: str | type | None, kind: str) -> None:
    assert gather(make_app(), pool=given).pool.kind == kind


def test_an_eager_worker_is_an_error_and_an_eager_client_is_not() -> None:
    app = make_app(task_always_eager=True)

    assert "ALWAYS_EAGER_IN_WORKER" in findings(app, role=Role.WORKER)
    assert "ALWAYS_EAGER_IN_WORKER" not in findings(app)
    assert "ALWAYS_EAGER_IN_WORKER" not in findings(make_app(), role=Role.WORKER)


@pytest.mark.parametrize(
    ("pool", "limits", "told"),
    [
        ("threads", {"time_limit": 10}, True),
        ("threads", {"soft_time_limit": 10}, True),
        ("solo", {"time_limit": 10}, True),
        ("eventlet", {"time_limit": 10}, True),
        ("gevent", {"time_limit": 10}, True),
        ("gevent", {"soft_time_limit": 10}, True),
        ("threads", {}, False),
        ("gevent", {}, False),
        ("prefork", {"time_limit": 10, "soft_time_limit": 5}, False),
    ],
)
def test_limits_that_the_pool_ignores_are_told(pool: str, limits: dict[str, int], told: bool) -> None:
    app = make_app()
    add_task(app, "shop.charge", **limits)

    assert ("POOL_IGNORES_TIME_LIMITS" in findings(app, pool=pool)) is told


GEVENT = """
if {patched}:
    import gevent.monkey
    gevent.monkey.patch_all()
if {cooperative}:  # what psycogreen.gevent.patch_psycopg() does
    import psycopg2.extensions
    psycopg2.extensions.set_wait_callback(lambda connection: None)
from celery import Celery
from celery_saga.runtime.guard import Role, gather, inspect
app = Celery("checked", broker="memory://")
facts = gather(app, role=Role.WORKER, pool="gevent", database_url="{url}", timeout_s=0.5)
print(*(finding.code for finding in inspect(app, facts)))
"""


def in_gevent(*, patched: bool, url: str, cooperative: bool = False) -> set[str]:
    """The codes found by a worker of its own process."""
    script = GEVENT.format(patched=patched, url=url, cooperative=cooperative)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize("patched", [True, False])
def test_gevent_without_its_patches_is_an_error(patched: bool) -> None:
    assert ("GREEN_POOL_NOT_PATCHED" in in_gevent(patched=patched, url="")) is not patched


def test_psycopg2_under_gevent_is_an_error_unless_it_yields() -> None:
    url = "postgresql://nobody@127.0.0.1:1/db"

    assert "PSYCOPG2_UNDER_GREEN_POOL" in in_gevent(patched=True, url=url)
    assert "PSYCOPG2_UNDER_GREEN_POOL" not in in_gevent(patched=True, url=url, cooperative=True)


def test_gevent_asks_a_real_database_through_psycopg_3_and_finds_nothing_to_patch(psycopg_url: str) -> None:
    found = in_gevent(patched=True, url=psycopg_url)

    assert not {"PSYCOPG2_UNDER_GREEN_POOL", "DATABASE_UNREACHABLE", "DATABASE_NOT_ASKED"} & found


@pytest.mark.parametrize(
    ("pool", "url", "told"),
    [
        ("gevent", "postgresql+psycopg2://nobody@127.0.0.1:1/db", True),
        ("eventlet", "postgresql://nobody@127.0.0.1:1/db", True),
        ("gevent", "postgresql+psycopg://nobody@127.0.0.1:1/db", False),
        ("threads", "postgresql://nobody@127.0.0.1:1/db", False),
        ("prefork", "postgresql://nobody@127.0.0.1:1/db", False),
    ],
)
def test_psycopg2_is_told_under_green_pools_only(pool: str, url: str, told: bool) -> None:
    found = findings(make_app(), pool=pool, database_url=url)

    assert ("PSYCOPG2_UNDER_GREEN_POOL" in found) is told


@pytest.mark.parametrize(
    ("pool", "driver", "told"),
    [("gevent", "mysqldb", True), ("gevent", "pymysql", False), ("prefork", "mysqldb", False)],
)
def test_mysqlclient_is_told_under_green_pools_only(pool: str, driver: str, told: bool) -> None:
    found = findings(make_app(), pool=pool, database_url=f"mysql+{driver}://nobody@127.0.0.1:1/db")

    assert ("MYSQLCLIENT_UNDER_GREEN_POOL" in found) is told


def test_spawned_processes_are_told_and_frequent_ones_are_a_warning() -> None:
    spawn = {"SPAWN_START_METHOD", "SPAWN_WITH_MAX_TASKS"}
    app = make_app(worker_pool_start_method="spawn")

    assert spawn & findings(app).keys() == {"SPAWN_START_METHOD"}
    assert spawn & findings(app, max_tasks_per_child=10).keys() == spawn
    assert spawn & findings(app, pool="threads", max_tasks_per_child=10).keys() == set()
    assert spawn & findings(make_app(worker_max_tasks_per_child=10)).keys() == set()


def test_the_start_method_of_billiard_counts() -> None:
    script = (
        "import billiard; billiard.set_start_method('spawn')\n"
        "from celery import Celery\n"
        "from celery_saga.runtime.guard import gather\n"
        "print(gather(Celery('checked', broker='memory://')).pool.start_method)\n"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout.strip() == "spawn"


@pytest.mark.parametrize(("multiplier", "told"), [(4, True), (0, True), (1, False)])
def test_prefetching_behind_long_tasks_is_told(multiplier: int, told: bool) -> None:
    by_task = make_app(worker_prefetch_multiplier=multiplier)
    add_task(by_task, "shop.report", time_limit=300)
    by_step = make_app(worker_prefetch_multiplier=multiplier)
    add_task(by_step, "shop.report")

    assert ("PREFETCH_BEHIND_LONG_STEPS" in findings(by_task)) is told
    assert ("PREFETCH_BEHIND_LONG_STEPS" in findings(by_step, step_timeouts_s={"shop.report": 300.0})) is told


def test_prefetching_behind_short_tasks_is_not_told() -> None:
    app = make_app(worker_prefetch_multiplier=64)
    add_task(app, "shop.charge", time_limit=299)

    assert "PREFETCH_BEHIND_LONG_STEPS" not in findings(app)


def test_that_revokes_are_forgotten_is_told_to_workers_without_a_state_file() -> None:
    assert "REVOKES_IN_MEMORY" in findings(make_app(), role=Role.WORKER)
    assert "REVOKES_IN_MEMORY" not in findings(make_app())
    assert "REVOKES_IN_MEMORY" not in findings(make_app(worker_state_db="state"), role=Role.WORKER)
