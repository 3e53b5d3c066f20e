"""Without OpenTelemetry everything works, and where nobody uses it nothing of it is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.workers import ROOT

_PROGRAM = """
import sys

if {blocked}:
    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "opentelemetry":
                raise ModuleNotFoundError(name)

    sys.meta_path.insert(0, Blocked())

from celery import Celery

from celery_saga import CelerySaga, Run, saga

app = Celery("absent", set_as_current=True)
app.conf.update(task_always_eager=True, saga_database_url="sqlite://")
CelerySaga(app).migrate()


@app.task
def add(x):
    return x + 1


@saga(name="tel_absent")
def counts(run: Run, x: int) -> int:
    return run.step(add.si(x))


assert counts.start(1).wait(5) == 2
assert app.saga.services.telemetry.step(None, None) is None
print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
"""


@pytest.mark.parametrize("is_blocked", [True, False], ids=["not installed", "installed"])
def test_a_run_goes_its_way_and_nothing_of_it_is_loaded(is_blocked: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(blocked=is_blocked)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "[]"
