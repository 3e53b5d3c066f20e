"""What many sleeping runs cost: messages, memory of an idle worker, and the sweeper's look."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from statistics import median

import psutil

from tests.bench.contestants.contestant import running
from tests.bench.contestants.ours import ByBroker
from tests.bench.measures.measure import Outcome, Setting
from tests.bench.multiplied import multiply
from tests.bench.rows import Row, Series, at_most
from tests.workers import wait_until

TICKS = 50
MIB = 2**20


def sleepers(setting: Setting) -> Outcome:
    """Two workers that have put one run to sleep each; the database of one of them is full of such runs."""
    count = setting.size.sleepers
    messages: list[float] = []
    more_mib: list[float] = []
    tick_ms: list[float] = []
    for number in range(setting.size.few):
        with _Loud(setting.processes) as full, _Loud(setting.processes) as empty:
            multiply(full.connection, _asleep(full), count, "1 second")
            _asleep(empty)
            with running(full, empty):
                before = full.worker.text.count(" received")
                threading.Event().wait(setting.size.idle_s)
                messages.append(full.worker.text.count(" received") - before)
                more_mib.append(round(_rss_mib(full) - _rss_mib(empty)))
            tick_ms.append(_tick_ms(full))
        told = f"{messages[-1]:.0f} messages, {more_mib[-1]:+.0f} MiB, a tick {tick_ms[-1]:.2f} ms"
        setting.say(f"round {number + 1}, {setting.size.idle_s:g} s: {told}")
    what = f"{count:,} sleeping runs"
    return Outcome(
        [
            Row(f"{what}: messages in {setting.size.idle_s:g} s", at_most(0), Series("", "", tuple(messages))),
            Row(
                f"{what}: memory of a worker, more than without", at_most(0, "MiB"), Series("", "MiB", tuple(more_mib))
            ),
            Row(f"{what}: a sweep tick", at_most(10, "ms"), Series("", "ms", tuple(tick_ms))),
        ]
    )


class _Loud(ByBroker):
    """Its log tells of each message."""

    log_level = "INFO"


def _asleep(sagas: ByBroker) -> str:
    """The id of a run that sleeps for a month; its worker has loaded what that takes."""
    with running(sagas):
        run = sagas.shop.sleeping.start(datetime.now(UTC) + timedelta(days=30))
        wait_until(lambda: run.refresh().status == "waiting", 60, "the run sleeps")
    return str(run.id)


def _rss_mib(sagas: ByBroker) -> float:
    return sum(psutil.Process(pid).memory_info().rss for pid in sagas.pids()) / MIB


def _tick_ms(sagas: ByBroker) -> float:
    """The engine's own look at what is due, from this process."""
    engine = sagas.shop.app.saga.services.engine
    took_ms: list[float] = []
    for _ in range(TICKS):
        begun_s = time.perf_counter()
        assert engine.sweep() == 0
        took_ms.append((time.perf_counter() - begun_s) * 1000)
    return median(took_ms)
