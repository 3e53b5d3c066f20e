"""The demo itself, with its real worker, its kills and its second process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from celery_saga.client.waiting import pauses_s
from celery_saga.demo.scenes import SCENES

PROGRAM = [sys.executable, "-m", "celery_saga.cli", "demo"]


def run_demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """From an empty folder, with temporary files in it."""
    return subprocess.run(
        [*PROGRAM, *words],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.faults
def test_every_scene_ends_as_it_has_to_and_nothing_is_left_behind(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--json")

    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [scene["scene"] for scene in found["scenes"] if scene["as_expected"]] == [scene.name for scene in SCENES]
    calls = {scene["order"]: scene["calls"] for scene in found["scenes"]}
    assert calls == {
        "o1": ["reserve o1", "charge 500", "dispatch o1"],
        "o2": ["reserve o2", "charge 500", "charge 500", "charge 500", "dispatch o2"],
        "o3": ["reserve o3", "charge 500", "charge 500", "charge 500", "release o3"],
        "o4": ["reserve o4", "charge 500", "dispatch o4", "refund ch_1", "release o4"],
        "o6": ["reserve o6", "charge 200000", "dispatch o6"],
        "o9": ["reserve o9", "charge 200000", "dispatch o9"],
        "o7": ["reserve o7", "charge 500", "charge 500", "dispatch o7"],
        "o8": ["reserve o8", "charge 500", "dispatch o8", "refund ch_1", "release o8"],
    }
    assert {scene["idempotency_keys"] for scene in found["scenes"]} == {1}
    assert found["took_s"] < 60
    assert list(tmp_path.iterdir()) == []
    assert _workers_in(tmp_path) == []


def _hear_ctrl_c() -> None:
    """Tests that are run in the background of a shell have it ignored, and their children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 1)], ids=["SIGTERM", "Ctrl-C"]
)
def test_a_demo_that_is_stopped_leaves_no_worker_and_no_file_behind(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        [*PROGRAM],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - it only sets a signal
    )
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("2/8"):  # the first scene is over: there is a worker
            break
    assert len(_workers_in(tmp_path)) > 0

    process.send_signal(number)
    process.communicate(timeout=30)

    assert process.returncode == code
    assert "(deleted at the end; --keep keeps it)" in "".join(lines)
    assert list(tmp_path.iterdir()) == []
    for _ in pauses_s(10):
        if not _workers_in(tmp_path):
            return
    raise AssertionError(f"workers are left: {_workers_in(tmp_path)}")


def test_a_scene_that_ends_otherwise_fails_the_demo_and_is_named(tmp_path: Path) -> None:
    """With a charge that never comes back, the happy path is not as it has to be."""
    program = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from celery_saga.demo import scenes\n"
        "first = scenes.SCENES[0]\n"
        "calls = (*first.ending.calls, 'refund ch_1')\n"
        "scenes.SCENES = (replace(first, ending=replace(first.ending, calls=calls)),)\n"
        "sys.argv = ['celery-saga', 'demo']\n"
        "from celery_saga.cli.standalone import main\n"
        "main()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("DEMO_FAILED: happy_path: calls: expected ")
    assert done.stderr.count("\n") == 1
    kept = re.search(r"are in (\S+)$", done.stderr.strip())
    assert kept is not None and (Path(kept[1]) / "worker.log").exists()
    shutil.rmtree(kept[1])


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "NO_COLOR": "1"}


def _workers_in(folder: Path) -> list[int]:
    """Pids of the processes whose demo lives in this folder."""
    wanted = f"CELERY_SAGA_DEMO_FOLDER={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue  # it ended meanwhile, or is another user's
    return found
