"""In which libraries a worker's processes spend Python's time, while they execute sequences: py-spy's samples."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.bench.contestants.contestant import STEPS
from tests.bench.contestants.ours import ByBroker, Inline, Sagas
from tests.bench.measures.measure import Outcome, Setting

LIBRARIES = ("celery", "kombu", "redis", "billiard", "sqlalchemy")
SAMPLES_PER_S = 200
OTHERS = "all else"


def profile(setting: Setting) -> Outcome:
    """Shares of the samples in which a thread held the lock of the interpreter, by who wrote the innermost function."""
    if not setting.size.profiles:
        setting.say(f"not in a {setting.size.name} run")
        return Outcome([])
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        setting.say("not measured: py-spy is not installed: pip install '.[bench]'")
        return Outcome([])
    found = {}
    for kind in (ByBroker, Inline):
        with kind(setting.processes) as sagas, tempfile.TemporaryDirectory() as directory:
            runs = max(20, round(sagas.rate(setting.size.seconds / 4) * 2 * setting.size.seconds / STEPS))
            out = Path(directory) / "samples"
            _watched(spy, sagas, runs, out)
            found[kind.name] = shares(out.read_text().splitlines())
        told = ", ".join(f"{name} {part:.0%}" for name, part in list(found[kind.name].items())[:6])
        setting.say(f"{kind.name}: {told}")
    return Outcome([], {"profile": found})


def _watched(spy: str, sagas: Sagas, runs: int, out: Path) -> None:
    words = [spy, "record", "--gil", "--subprocesses", "--nonblocking", "-r", str(SAMPLES_PER_S), "-f", "raw"]
    words += ["-d", "600", "-o", str(out), "-p", str(sagas.worker.pid)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as watching:
        try:
            sagas.work_off(runs)
        finally:
            watching.send_signal(signal.SIGINT)


def shares(stacks: Iterable[str]) -> dict[str, float]:
    """Parts of one, the greatest first: a library, or a package of celery_saga.

    Args:
        stacks: lines of py-spy's raw format: frames from the outermost on, each `function (file:line)`, and a count.
    """
    counted: Counter[str] = Counter()
    for line in stacks:
        frames, _, count = line.rpartition(" ")
        counted[_owner(frames.split(";"))] += int(count)
    whole = sum(counted.values())
    return {name: count / whole for name, count in counted.most_common()}


def _owner(frames: list[str]) -> str:
    for frame in reversed(frames):
        if "(celery_saga/" in frame:
            return "celery_saga." + frame.partition("(celery_saga/")[2].split("/")[0].partition(".py")[0]
        for library in LIBRARIES:
            if f"({library}/" in frame:
                return library
    return OTHERS
