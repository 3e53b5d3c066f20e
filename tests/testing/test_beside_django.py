"""The laboratory inside Django's TestCase."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

SUITE = """
import django
from celery import Celery
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()

from django.contrib.auth.models import Group
from django.test import TestCase, TransactionTestCase

from celery_saga import CelerySaga, Run, saga, step
from celery_saga.testing import Lab, rehearse

app = Celery("site")
CelerySaga(app, database_url="sqlite://")


@app.task
def make(name):
    return Group.objects.get_or_create(name=name)[0].pk


@app.task
def unmake(pk):
    Group.objects.filter(pk=pk).delete()


@app.task
def publish(name):
    if name == "bad":
        raise ValueError(name)


@saga(name="site_group", errors=[ValueError])
def group(run: Run, name: str) -> int:
    pk = run.step(make.si(name), undo=unmake, undo_unknown="park")
    run.step(publish.si(name))
    return pk


class InATransaction(TestCase):
    def test_steps_write_in_the_transaction_of_the_test(self):
        with Lab() as lab:
            run = lab.start(group, "good")
            lab.drain()
        assert run.result == Group.objects.get().pk

    def test_and_leave_nothing_for_the_next(self):
        assert Group.objects.count() == 0
        with Lab() as lab:
            lab.start(group, "bad")
            lab.drain()
        assert Group.objects.count() == 0

    def test_rehearsals_count_rows(self):
        assert rehearse(group, "good", ledger=Group.objects.count).ok


class WithoutTransaction(TransactionTestCase):
    def test_it_is_the_same(self):
        with Lab() as lab:
            run = lab.start(group, "good")
            lab.drain()
        assert run.result == Group.objects.get().pk
"""

RUN = """
import sys
import test_site
from django.test.runner import DiscoverRunner

sys.exit(DiscoverRunner(verbosity=0).run_tests(["test_site"]))
"""


def test_a_lab_works_in_djangos_own_test_cases(tmp_path: Path) -> None:
    pytest.importorskip("django")
    (tmp_path / "test_site.py").write_text(SUITE)

    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 4 tests" in done.stderr
