"""What a process takes longer for having sagas: the import, and a worker until it is ready."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.contestants.ours import APP, QUIET
from tests.bench.measures.measure import Outcome, Setting
from tests.bench.rows import Row, Series, at_most
from tests.runtime.places import place_with
from tests.workers import ROOT, Worker

CHAINS = "tests.bench.apps.chains"
_TIMED = "from celery import Celery; import time; a = time.perf_counter(); {}; print(time.perf_counter() - a)"


def imports(setting: Setting) -> Outcome:
    """In a process that has imported Celery."""
    whole = "from celery_saga import CelerySaga, Run, Signal, saga, step"
    package, names = (
        [_import_ms(words) for _ in range(1 + setting.size.start_ups)][1:] for words in ("import celery_saga", whole)
    )
    setting.say(f"{median(package):.1f} ms, with its names {median(names):.1f} ms")
    return Outcome(
        [
            Row("import celery_saga", at_most(30, "ms"), Series("", "ms", tuple(package))),
            Row(whole, None, Series("", "ms", tuple(names))),
        ]
    )


def _import_ms(words: str) -> float:
    told = subprocess.run([sys.executable, "-c", _TIMED.format(words)], cwd=ROOT, capture_output=True, check=True)
    return float(told.stdout) * 1000


def start_up(setting: Setting) -> Outcome:
    """From the command to a worker that consumes, with and without sagas, in turns."""
    more_ms: list[float] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = stack.enter_context(place_with("redis", directory, module=APP))
        without = {"BENCH_SETTINGS": json.dumps(place.settings)}
        for number in range(1 + setting.size.start_ups):
            bare_ms = _ready_ms(Worker(CHAINS, without, concurrency=setting.processes, options=QUIET))
            with_ms = _ready_ms(place.worker(concurrency=setting.processes, options=QUIET))
            if number:  # the first of each has read the files
                more_ms.append(with_ms - bare_ms)
                setting.say(f"pair {number}: {with_ms:.0f} ms, without {bare_ms:.0f} ms")
    return Outcome(
        [Row("start-up of a worker, more than without", at_most(200, "ms"), Series("", "ms", tuple(more_ms)))]
    )


def _ready_ms(worker: Worker) -> float:
    begun_s = time.perf_counter()
    with worker:
        took_ms = (time.perf_counter() - begun_s) * 1000
        worker.kill()
        return took_ms
