"""The admin and the HTTP API in the bazaar's project, in processes of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.django.project import database, run_suite

APPS = ["admin", "auth", "contenttypes", "sessions", "messages", "staticfiles"]
SETTINGS: dict[str, Any] = {
    "INSTALLED_APPS": [*(f"django.contrib.{app}" for app in APPS), "django_celery_beat", "contrib_django", "bazaar"],
    "ROOT_URLCONF": "bazaar.urls",
    "CELERY_TASK_ALWAYS_EAGER": True,
    "DEBUG": False,
}


OTHERS = (*(f"suite_admin_{each}.py" for each in ("forms", "pictures", "beat", "many", "odd")), "suite_api.py")


def test_the_admin(tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as given:
        run_suite("suite_admin.py", given, **SETTINGS)


def test_its_forms_and_pictures_and_the_api(tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as given:
        run_suite(OTHERS[0], given, *OTHERS[1:], **SETTINGS)


@pytest.mark.heavy
@pytest.mark.servers
@pytest.mark.parametrize("suite", ["suite_admin.py", *OTHERS])
def test_the_admin_on_postgresql(suite: str, tmp_path: Path) -> None:
    with database("psycopg", tmp_path) as given:
        run_suite(suite, given, **SETTINGS)


@pytest.mark.heavy
@pytest.mark.servers
def test_the_admin_over_a_million_runs(tmp_path: Path) -> None:
    with database("psycopg", tmp_path) as given:
        run_suite("suite_admin_large.py", given, **SETTINGS)
