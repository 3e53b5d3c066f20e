"""Children that are spawned, not forked: their app is another object, built from the configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import celery
import pytest

from tests.runtime.places import place_with

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(celery.__version__ < "5.7", reason="the setting for the start method came with Celery 5.7"),
]


def test_steps_run_in_spawned_children(tmp_path: Path) -> None:
    with place_with("redis", tmp_path, worker_pool_start_method="spawn") as place, place.worker(concurrency=1):
        assert place.shop.checkout.start("o2", 13).wait(30) == "ch-13"

    assert [line.split()[0] for line in place.calls()] == ["reserve", "charge", "charge", "charge", "dispatch"]


_TWO_APPS = """
from celery import Celery
from celery_saga import CelerySaga
apps = [Celery("a"), Celery("b"), Celery("other")]
for app in apps[:2]:
    CelerySaga(app, database_url="sqlite://")
for app in apps:
    app.finalize()
CelerySaga(Celery("late"), database_url="sqlite://")
print([sum("celery_saga." in name for name in app.tasks) for app in apps])
"""


def test_in_a_spawned_child_each_app_has_tasks_of_its_own_and_nothing_is_warned_of() -> None:
    spawned = {**os.environ, "FORKED_BY_MULTIPROCESSING": "1"}  # as billiard marks them

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _TWO_APPS], env=spawned, capture_output=True, text=True, check=False
    )

    assert (done.stdout.strip(), done.returncode) == ("[4, 4, 0]", 0), done.stderr
