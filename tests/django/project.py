"""The Django project beside this file, in processes of its own: its commands, its suites, its servers.

A suite is a module `suite_*.py`, which `run_suite` runs by pytest-django in the project; a plain run collects none. The
project's database is a URL, as `proj/settings.py` reads it; `DJANGO_DRIVER=psycopg2` hides psycopg 3 from Django.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers import fresh_mariadb_database, fresh_postgresql_database
from tests.workers import ROOT

PLACE = ROOT / "tests" / "django"
DATABASES = ("sqlite", "psycopg2", "psycopg")
"""What the project can have its database on: a file, and PostgreSQL through either driver."""
_PATIENCE_S = float(os.environ.get("CELERY_SAGA_TEST_PATIENCE_S", "110"))


@contextmanager
def database(kind: str, place: Path) -> Iterator[dict[str, str]]:
    """The environment of a project with an empty database of its own: sqlite, psycopg2, psycopg or mysql."""
    if kind == "sqlite":
        yield {"DJANGO_DB": f"sqlite:///{place / 'project.db'}"}
        return
    fresh = fresh_mariadb_database() if kind == "mysql" else fresh_postgresql_database(kind)
    with fresh as url:
        yield {"DJANGO_DB": url, "DJANGO_DRIVER": kind}


def environment(given: Mapping[str, str], **settings: Any) -> dict[str, str]:
    """What a process of the project gets; with Django settings that go over its own."""
    path = os.pathsep.join([str(PLACE), str(ROOT), os.environ.get("PYTHONPATH", "")])
    said = {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "proj.settings", "DJANGO_EXTRA": json.dumps(settings)}
    return {**os.environ, **said, **given}


def python(given: Mapping[str, str], *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in the project."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=PLACE,
        env=environment(given, **settings),
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


def manage(given: Mapping[str, str], *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of `manage.py`."""
    return python(given, "manage.py", *words, **settings)


def shell(given: Mapping[str, str], program: str, **settings: Any) -> str:
    """Run a program in the project, after `django.setup()`; what it printed."""
    done = python(given, "-c", f"import django\ndjango.setup()\n{program}", **settings)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def run_suite(name: str, given: Mapping[str, str], *words: str, **settings: Any) -> None:
    """Run a suite by pytest in the project; all of it must pass, and none of it be skipped."""
    suite = str(PLACE / name)
    done = python(given, "-m", "pytest", "-q", "-p", "no:cacheprovider", suite, *words, **settings)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and " skipped" not in done.stdout, done.stdout[-2000:]
