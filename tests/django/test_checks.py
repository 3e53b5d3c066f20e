"""System checks of a Django project, and the page that lists them."""

from __future__ import annotations

from pathlib import Path

from contrib_django.checks.codes import CODES, PREFIX
from contrib_django.checks.document import page
from tests.django.project import database, manage, run_suite
from tests.workers import ROOT


def test_each_check_finds_what_it_is_for(tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as given:
        run_suite("suite_checks.py", given)


def test_the_page_lists_them_all() -> None:
    written = (ROOT / "docs" / "django-checks.md").read_text()

    assert written == page(), "python -m contrib_django.checks.document > docs/django-checks.md"
    assert all(f"### {PREFIX}{code.name}\n" in written for code in CODES)


def test_each_check_of_the_page_has_its_test() -> None:
    suite = (ROOT / "tests" / "django" / "suite_checks.py").read_text()

    assert [code.name for code in CODES if f'"{code.name}"' not in suite] == []


def test_a_project_that_does_not_import_its_celery_app_is_told(tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as given:
        done = manage({**given, "DJANGO_WITHOUT_CELERY": "1"}, "check")

    assert done.returncode == 1
    assert "celery_saga.E001" in done.stderr
    assert "from .celery import app" in done.stderr
