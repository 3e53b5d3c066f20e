"""Settings of a Django project, of its Celery app and of its databases."""

from __future__ import annotations

from pathlib import Path

from tests.django.project import database, run_suite


def test_settings_and_databases(tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as given:
        run_suite("suite_settings.py", {**given, "DJANGO_DRIVER": "mysql"})
