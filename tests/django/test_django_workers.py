"""Django's connections, pools and transactions on real workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import make_url

from tests.django.project import environment, manage, python, shell
from tests.servers import PrivatePostgres
from tests.workers import Worker

pytestmark = pytest.mark.servers


@contextmanager
def project(database: str, broker: str, *, slots: int = 2, **settings: Any) -> Iterator[tuple[Mapping[str, str], Any]]:
    """A migrated project with a worker; its environment and settings, for other processes of it."""
    driver = make_url(database).get_driver_name()
    given = {"DJANGO_DB": database, "DJANGO_DRIVER": driver}
    settings |= {"CELERY_BROKER_URL": broker, "CELERY_IMPORTS": ["till"], "CELERY_SAGA_SWEEP_INTERVAL": 0.3}
    made = manage(given, "migrate", "-v", "0", **settings)
    assert made.returncode == 0, made.stderr[-3000:]
    with Worker("proj", environment(given, **settings), concurrency=slots):
        yield given, settings


def test_a_run_starts_after_its_request_has_committed_and_never_when_it_fails(
    psycopg_url: str, rabbitmq_url: str
) -> None:
    program = """
from django.db import connection
from django.test import Client
import till
connection.settings_dict["ATOMIC_REQUESTS"] = True
client = Client(raise_request_exception=False)
failed = client.get("/order?fails")
print(failed.status_code, till.rows())
run = client.get("/order").content.decode()
print(till.celery_app.saga.get(run).wait(30), till.rows())
"""
    with project(psycopg_url, rabbitmq_url, ROOT_URLCONF="till") as (given, settings):
        told = shell(given, program, **settings)

    assert told.splitlines() == [
        "500 {'runs': 0, 'steps': 0, 'orders': 0}",
        "['committed'] {'runs': 1, 'steps': 1, 'orders': 1}",
    ]


def test_a_process_that_dies_right_after_its_commit_has_started_the_run(postgresql_url: str, rabbitmq_url: str) -> None:
    with project(postgresql_url, rabbitmq_url, CELERY_SAGA_LEASE=1.0) as (given, settings):
        died = python(
            given, "-c", "import django; django.setup(); import till; till.die_between_commit_and_message()", **settings
        )
        told = shell(
            given,
            """
import till
run = till.two_steps.find(key="orphan")
run.signal("go on")
print(len(run.wait(40)), till.rows())
""",
            **settings,
        )

    assert died.returncode == 9, died.stderr
    assert told.splitlines() == ["2 {'runs': 1, 'steps': 3, 'orders': 2}"]


@pytest.mark.heavy
def test_what_a_killed_step_wrote_is_gone_with_its_attempt(psycopg_url: str, rabbitmq_url: str) -> None:
    program = """
import till
run = till.booking.start("once")
print(run.wait(40), till.rows(), [step.attempt for step in run.steps()])
"""
    with project(psycopg_url, rabbitmq_url, CELERY_SAGA_LEASE=1.0) as (given, settings):
        told = shell(given, program, **settings)

    assert told.splitlines() == ["once {'runs': 1, 'steps': 1, 'orders': 1} [2]"]


@pytest.mark.faults
@pytest.mark.parametrize("driver", [pytest.param("psycopg2", marks=pytest.mark.heavy), "psycopg"])
def test_the_second_step_of_a_child_queries_a_restarted_server(
    private_postgres: PrivatePostgres, rabbitmq_url: str, driver: str
) -> None:
    database = private_postgres.url.replace("psycopg2", driver)
    begin = """
import time, till
run = till.two_steps.options(key="kept").start()
while run.status != "waiting":
    time.sleep(0.05)
"""
    end = """
import till
run = till.two_steps.find(key="kept")
run.signal("go on")
pids = run.wait(40)
print(len(pids), len(set(pids)), [step.attempt for step in run.steps()], till.rows())
"""
    with project(database, rabbitmq_url, slots=1) as (given, settings):
        shell(given, begin, **settings)
        private_postgres.stop()
        private_postgres.start()
        told = shell(given, end, **settings)

    assert told.splitlines() == ["2 1 [1, 0, 1] {'runs': 1, 'steps': 3, 'orders': 2}"]


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.heavy)])
def test_many_steps_over_djangos_pool(psycopg_url: str, rabbitmq_url: str, count: int) -> None:
    url = make_url(psycopg_url)
    pooled = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.database,
        "HOST": url.host,
        "PORT": str(url.port or 5432),
        "USER": url.username,
        "PASSWORD": url.password or "",
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 4}},
    }
    program = f"""
import till
from django.db import transaction
with transaction.atomic():
    run = till.counting.start({count})
print(run.wait(100), till.rows(), {{step.attempt for step in run.steps()}})
"""
    with project(psycopg_url, rabbitmq_url, DATABASES={"default": pooled}) as (given, settings):
        told = shell(given, program, **settings)

    assert told.splitlines() == [f"{count} {{'runs': 1, 'steps': {count + 1}, 'orders': {count}}} {{0, 1}}"]
