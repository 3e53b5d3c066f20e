"""The contract of schedules that django-celery-beat wakes, and what its admin changes, in a process with Django."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from celery_saga.core.ports import RunFilter
from celery_saga.core.schedules import FireOutcome, FireRecord
from celery_saga.store import SqlStore, migrate, open_store
from tests.schedules.beat import beating
from tests.servers import RedisPlace
from tests.workers import ROOT, Worker, wait_until

SITE = "tests.schedules.django_site"


def test_schedules_that_are_periodic_tasks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/schedules/suite_of_beat.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout


def _in_django(environment: dict[str, str], program: str) -> None:
    """Do something in a process of the Django project."""
    done = subprocess.run(
        [sys.executable, "-c", f"from {SITE} import app\n{program}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.heavy
def test_a_real_beat_wakes_a_schedule_of_the_settings_and_obeys_the_admin(
    postgresql_url: str, redis_place: RedisPlace
) -> None:
    often = {"often": {"saga": "schedules_site_tick", "every": 1, "args": ["x"], "overlap": "allow"}}
    settings = {**redis_place.settings, "saga_database_url": postgresql_url, "saga_schedules": often}
    environment = {"DJANGO_URL": postgresql_url, "SHOP_SETTINGS": json.dumps(settings)}
    _in_django(environment, "from django.core.management import call_command\ncall_command('migrate', verbosity=0)")
    store = open_store(postgresql_url)
    try:
        migrate(store)
        options = ("--scheduler", "django_celery_beat.schedulers:DatabaseScheduler", "--max-interval", "1")
        with Worker(SITE, environment, pool="solo"), beating(SITE, environment, *options):
            wait_until(lambda: len(_fired(store)) >= 4, what="four fires")
            _in_django(
                environment,
                "from django_celery_beat.models import PeriodicTask as Task, PeriodicTasks\n"
                "assert Task.objects.filter(task='celery_saga.fire').update(enabled=False) == 1\n"
                "PeriodicTasks.update_changed()",
            )
            paused = store.schedules()[0]
        fires, runs = _fired(store), store.runs(RunFilter(limit=1000))
    finally:
        store.close()

    assert (paused.source, paused.driver, paused.paused) == ("settings", "beat", True)
    # By the beat: a sweeper would have come 30 s later.
    assert max(fire.at - fire.nominal_at for fire in fires) < timedelta(seconds=15)
    assert {run.id: run.scheduled_for for run in runs} == {fire.run_id: fire.nominal_at for fire in fires}


def _fired(store: SqlStore) -> list[FireRecord]:
    found = store.fires("schedules_site_tick", "often", limit=1000)
    return [fire for fire in found if fire.outcome is FireOutcome.FIRED]
