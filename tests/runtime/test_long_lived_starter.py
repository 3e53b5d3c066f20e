"""R032: a web process that starts runs for weeks does not grow (celery/celery#9797)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.workers import ROOT

STARTS = """
import gc, os, sys
import psutil
from celery import Celery
from celery_saga import CelerySaga, Run, saga

url, count = sys.argv[1], int(sys.argv[2])
app = Celery("web", broker="memory://", set_as_current=True)
app.conf.update(saga_database_url=url, saga_events=True, saga_publish_results=True)
CelerySaga(app).migrate()

@app.task(shared=False)
def charge(cents):
    return cents

@saga
def pay(run: Run, order: str, cents: int) -> int:
    return run.step(charge.si(cents))

def start(several):
    for number in range(several):
        handle = pay.options(key=f"{several}-{number}").start(f"order {number}", number)
        assert handle.created
        if number % 200 == 0:  # the broker of this test is in this process, and keeps what nobody takes
            assert handle.status == "queued"
            with app.connection_for_write() as connection:
                assert connection.default_channel.queue_purge("celery") > 0

def rss():
    gc.collect()
    return psutil.Process().memory_info().rss

start(1001)
before = rss()
start(count)
print(f"grown {(rss() - before) / 1e6:.1f} MB")
app.saga.services.close()
"""


@pytest.mark.parametrize(("count", "most_mb"), [(1500, 5.0), pytest.param(20_000, 20.0, marks=pytest.mark.heavy)])
def test_starting_runs_leaves_nothing_behind(count: int, most_mb: float) -> None:
    # In memory where there is such a place: what is measured is the process, and a disk only makes it slow.
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        done = subprocess.run(
            [sys.executable, "-c", STARTS, f"sqlite:///{directory}/sagas.db", str(count)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    grown_mb = float(done.stdout.split()[1])
    assert grown_mb < most_mb, done.stdout
