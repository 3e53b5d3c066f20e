"""The project's sagas in each kind of process that a project has: workers, web servers, shells, forks, threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.django.project import database, environment, manage, shell
from tests.servers import RedisPlace
from tests.workers import Worker

POST = """
import time
from django.test import Client
from proj import celery_app
answer = Client().post("/orders/", {"item": "chair", "cents": "500"}).json()
handle = celery_app.saga.get(answer["run"])
"""
PAID = """
print(handle.wait(60))
from shop.models import Order
print(Order.objects.get().status)
"""


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("psycopg", {}),
        pytest.param("psycopg2", {"CELERY_WORKER_POOL_START_METHOD": "spawn"}, marks=pytest.mark.heavy),
    ],
    ids=["forked", "spawned"],
)
def test_a_request_starts_a_run_that_a_worker_executes(
    kind: str, settings: dict[str, str], tmp_path: Path, redis_place: RedisPlace
) -> None:
    said = {f"CELERY_{name.upper()}": value for name, value in redis_place.settings.items()} | settings
    with database(kind, tmp_path) as given:
        assert manage(given, "migrate", "-v0", **said).returncode == 0
        with Worker("proj", environment(given, **said), concurrency=1):
            printed = shell(given, POST + PAID, **said)

    assert printed.split() == ["charge-1", "paid"]


PROCESSES = """
import asyncio, os, threading
from django.db import connections
from django.test import AsyncClient, Client
from proj import celery_app
from shop.models import Order
from shop.sagas import checkout

def statuses():
    return {run.key: run.status.value for run in celery_app.saga.runs()}

def start(number):
    return checkout.start(number, 5).id

first = start(101)                                    # in the process that django.setup() was called in
thread = threading.Thread(target=start, args=(102,))  # as a WSGI server's
thread.start(); thread.join()

connections.close_all()
pid = os.fork()                                       # as a server that loads the project before it forks
if pid == 0:
    start(103)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
start(104)                                            # and the parent's connections are its own still

from proj.asgi import application
async def over_asgi():
    return await AsyncClient().post("/orders/", {"item": "chair", "cents": "5"})
answer = asyncio.run(over_asgi())
assert answer.status_code == 200, answer.content
from proj.wsgi import application
assert celery_app.saga.get(first).key == "101"
print(sorted(statuses(), key=int))
"""


def test_each_process_and_thread_has_what_it_needs(tmp_path: Path) -> None:
    with database("psycopg", tmp_path) as given:
        assert manage(given, "migrate", "-v0").returncode == 0
        printed = shell(given, PROCESSES)

    assert printed.strip() == "['1', '101', '102', '103', '104']"


def test_the_command_line_is_that_of_celery(tmp_path: Path) -> None:
    with database("psycopg", tmp_path) as given:
        assert manage(given, "migrate", "-v0").returncode == 0
        started = manage(
            given, "saga", "start", "djshop_approved", "--args", "[7]", "--json", "--settings=proj.settings"
        )
        runs = manage(given, "saga", "runs", "--no-color")
        unknown = manage(given, "saga", "show", "nobody")
        wrong = manage(given, "saga", "runs", "--nobody")
        called = shell(given, CALLED)

    assert started.returncode == 0 and '"key": "7"' in started.stdout, started.stderr
    assert runs.returncode == 0 and "djshop_approved" in runs.stdout
    assert (unknown.returncode, wrong.returncode) == (1, 2)
    assert unknown.stderr.splitlines()[-1].startswith("RUN_NOT_FOUND: ")
    assert "manage.py saga runs" in wrong.stderr
    assert called.splitlines()[-1] == "1 RUN_NOT_FOUND"


CALLED = """
from django.core.management import CommandError, call_command
call_command("saga", "runs", "--json")
try:
    call_command("saga", "show", "nobody")
except CommandError as error:
    print(error.returncode, str(error).partition(":")[0])
"""


def test_a_project_without_celery_app_is_told_by_the_command_too(tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as given:
        done = manage({**given, "DJANGO_WITHOUT_CELERY": "1"}, "saga", "runs")

    assert done.returncode == 2
    assert done.stderr.startswith("NO_APP: ")
