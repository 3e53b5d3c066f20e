"""The examples of changed sagas, of progress and of declarations, run as their readers would."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from celery_saga.client.waiting import pauses_s
from tests.docs.blocks import blocks
from tests.examples.project import SCRIPTS
from tests.servers import PrivateRedis
from tests.workers import ROOT, Worker

TIMEOUT_S = 60.0


class ScriptWorker(Worker):
    """`celery -A APP worker`, in a folder."""

    def __init__(self, app: str, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(app, environment)
        self._words = ["env", "-C", str(folder), "-u", "PYTHONPATH", str(SCRIPTS / "celery"), *self._words[3:]]


class Desk:
    """A reader at an example, with servers of the test's own.

    Args:
        name: of the example.
        folder: where the reader has its copy.
        environment: all of it.
    """

    def __init__(self, name: str, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        page = ROOT / "examples" / name / "README.md"
        self.lines = [block.text.splitlines() for block in blocks(page, "console")]

    def typed(self, line: str, *, code: int = 0) -> str:
        """What a line of the page prints; it ends with this code."""
        words = shlex.split(line.removeprefix("$ "))
        program = [sys.executable] if words[0] == "python" else [str(SCRIPTS / words[0])]
        done = subprocess.run(
            [*program, *words[1:]],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def worker(self, line: str) -> Iterator[None]:
        """The worker that a line of the page starts."""
        with ScriptWorker(shlex.split(line)[3], self._folder, self._environment):
            yield

    def until(self, line: str, is_so: Callable[[str], bool]) -> str:
        """What a line prints once that is so."""
        for pause_s in pauses_s(30):
            told = self.typed(line)
            if is_so(told):
                return told
            time.sleep(pause_s)
        raise AssertionError(f"{line}: {told}")


@pytest.fixture
def desk(request: pytest.FixtureRequest, private_redis: PrivateRedis, postgresql_url: str, tmp_path: Path) -> Desk:
    name: str = request.param
    folder = tmp_path / name
    shutil.copytree(ROOT / "examples" / name, folder)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SHOP_BROKER_URL": private_redis.url, "SHOP_DATABASE_URL": postgresql_url, "NO_COLOR": "1"}
    return Desk(name, folder, environment)


@pytest.mark.servers
@pytest.mark.parametrize("desk", ["versions"], indirect=True)
def test_a_saga_is_changed_while_its_runs_are_alive(desk: Desk) -> None:
    setting_up, today, asking, deploying, tomorrow = desk.lines
    desk.typed(setting_up[2])
    with desk.worker(setting_up[3]):
        desk.typed(today[0])
        desk.until("$ celery -A today saga show parcel:o1", lambda told: "waits for: signal paid" in told)
        assert "parcel" in desk.typed(today[1])

    careless, good = desk.typed(asking[0], code=1), desk.typed(asking[1])
    with desk.worker(deploying[0]):
        for line in tomorrow[:-2]:
            desk.typed(line)
        old, new = (desk.typed(line) for line in tomorrow[-2:])

    assert "'parcel" not in careless and "non_determinism" in careless and "(o1)" in careless
    assert "signal 'paid'" in careless and "step 'check'" in careless
    assert good == "1 live run replayed, none would break\n"
    assert '["held o1", "sent o1"]' in old
    assert '["held o2", "checked o2", "sent o2"]' in new


@pytest.mark.servers
@pytest.mark.parametrize("desk", ["progress"], indirect=True)
def test_a_long_step_tells_how_far_it_is(desk: Desk) -> None:
    setting_up, using = desk.lines
    desk.typed(setting_up[2])
    with desk.worker(setting_up[3]):
        desk.typed(using[0])
        watched, shown = desk.typed(using[1]), json.loads(desk.typed(using[2]))

    progress = next(step["progress"] for step in shown["steps"] if step["key"] == "export")
    assert (progress["current"], progress["total"], progress["message"]) == (200, 200, "rows")
    assert "progress  export  200 of 200 (100%)  rows" in watched
    assert watched.splitlines()[-1].endswith("completed")


@pytest.mark.servers
@pytest.mark.parametrize("desk", ["declared"], indirect=True)
def test_a_producer_starts_a_run_without_its_body(desk: Desk) -> None:
    setting_up, using = desk.lines
    desk.typed(setting_up[2])
    with desk.worker(setting_up[3]):
        printed, shown, versions = (desk.typed(line) for line in using)

    assert printed == "ch-o1-500 False\n"
    assert "completed" in shown and "checkout" in versions
