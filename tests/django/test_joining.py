"""Runs that are started, signalled and cancelled in Django's transactions, in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.django.project import database, run_suite

KINDS = ("sqlite", "psycopg", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("psycopg2", "mysql")))


@pytest.mark.servers
@pytest.mark.parametrize("kind", KINDS)
def test_runs_take_part_in_djangos_transactions(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as given:
        # In a file: a database in memory has one cache for all connections, and its tables are locked as wholes.
        test = {"NAME": str(tmp_path / "test.db")} if kind == "sqlite" else {}
        run_suite("suite_joining.py", {**given, "DJANGO_TEST": json.dumps(test)})


@pytest.mark.parametrize("router", [pytest.param(False, marks=pytest.mark.heavy), True], ids=["plain", "routed"])
def test_runs_are_in_one_of_several_databases(router: bool, tmp_path: Path) -> None:
    aliases = {alias: _file(tmp_path, alias) for alias in ("default", "sagas")}
    routers = ["contrib_django.saga_database.SagaRouter"] if router else []

    run_suite("suite_several.py", {}, DATABASES=aliases, CELERY_SAGA_DATABASE="sagas", DATABASE_ROUTERS=routers)


def _file(place: Path, alias: str) -> dict[str, object]:
    test = {"NAME": str(place / f"test-{alias}.db")}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(place / f"{alias}.db"), "TEST": test}
