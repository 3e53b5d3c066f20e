"""The saga tables as Django makes them, on each database, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.django.project import database, run_suite


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["sqlite", "psycopg"])
def test_djangos_migrations_make_the_librarys_tables(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as given:
        run_suite("suite_schema.py", given, CELERY_SAGA_TABLE_PREFIX="app_")
