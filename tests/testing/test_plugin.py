"""The pytest plug-in: one fixture, and nothing for those who do not use it."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT

HEAVY = ("celery", "kombu", "sqlalchemy", "pydantic", "celery_saga.engine", "celery_saga.store", "celery_saga.client")

SUITE = """
import sys

def test_without():
    loaded = [name for name in {heavy!r} if name in sys.modules]
    assert loaded == []
"""

USES = """
from celery import Celery
from celery_saga import Run, saga

app = Celery("plugged", set_as_current=True)

@app.task(name="plugged.double")
def double(number):
    return number * 2

@saga(name="plugged")
def doubled(run: Run, number: int) -> int:
    return run.step(double.si(number))

def test_with(lab):
    run = lab.start(doubled, 4)
    lab.drain()
    assert run.result == 8
    assert [str(call) for call in lab.calls] == ["double 4"]

def test_again(lab):
    assert lab.calls == []
    assert lab.app is app
"""


def suite(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A user's suite, with the plug-in as an installed one is loaded."""
    (folder / "test_of_a_user.py").write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "celery_saga.testing.plugin", "-p", "no:cacheprovider"]
    # Other plug-ins of this environment import Celery themselves.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_suite_without_sagas_loads_nothing_of_them(tmp_path: Path) -> None:
    done = suite(tmp_path, SUITE.format(heavy=HEAVY))

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fixture_is_a_lab_of_the_projects_app(tmp_path: Path) -> None:
    done = suite(tmp_path, USES)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_distribution_announces_the_plug_in() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")

    assert "celery_saga = celery_saga.testing.plugin" in config["options.entry_points"]["pytest11"]


def test_each_public_name_is_loaded_when_it_is_used() -> None:
    program = (
        "import sys, celery_saga.testing as t\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "print(sorted(name for name in t.__all__ if getattr(t, name) is None), set(t.__all__) <= set(dir(t)))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines() == ["[]", "[] True"]
