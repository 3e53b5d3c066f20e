"""Settings, sagas and test databases of a Django project, in processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.django.project import database, manage, run_suite

KINDS = ("sqlite", "psycopg", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("psycopg2", "mysql")))
SERVERS = (pytest.mark.heavy, pytest.mark.servers)


@pytest.mark.servers
@pytest.mark.parametrize("kind", KINDS)
def test_the_projects_sagas_in_its_test_database(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as given:
        run_suite("suite_spine.py", given)


@pytest.mark.heavy
@pytest.mark.servers
def test_each_process_of_xdist_has_the_runs_in_its_own_test_database(tmp_path: Path) -> None:
    with database("psycopg", tmp_path) as given:
        run_suite("suite_spine.py", given, "-n", "2")


@pytest.mark.parametrize("kind", ["sqlite", *(pytest.param(kind, marks=SERVERS) for kind in ("psycopg2", "mysql"))])
def test_djangos_own_test_runner_with_databases_side_by_side(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as given:
        done = manage(given, "test", "shop", "--parallel", "2")

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Ran 4 tests" in done.stderr
    assert "celery_saga." not in done.stderr, "a check about the test's database"
