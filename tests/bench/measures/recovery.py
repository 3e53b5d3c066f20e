"""How long until the next attempt of a step, after SIGKILL to the pool process or to the whole worker."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from tests.bench.contestants.contestant import running
from tests.bench.contestants.ours import QUIET, ByBroker
from tests.bench.measures.measure import Outcome, Setting
from tests.bench.rows import Row, Series, at_most
from tests.workers import wait_until

TIMEOUT_S = 120


def child(setting: Setting) -> Outcome:
    """The process in which a step is executed is killed."""
    worst: list[float] = []
    every: list[float] = []
    with ByBroker(setting.processes) as sagas, running(sagas):
        for number in range(setting.size.few):
            took_s = [_killed_child_s(sagas) for _ in range(setting.size.kills)]
            every += took_s
            worst.append(max(took_s))
            setting.say(f"round {number + 1}, {len(took_s)} kills: at most {worst[-1]:.2f} s")
    row = Row("SIGKILLed pool process: to the next attempt, at most", at_most(2, "s"), Series("", "s", tuple(worst)))
    return Outcome([row], {"recovery": {"pool process killed": every}})


def _killed_child_s(sagas: ByBroker) -> float:
    (run,) = _hanging(sagas, 1)
    begun_s = time.monotonic()
    os.kill(_pids(sagas)[-1], signal.SIGKILL)
    return float(run.wait(TIMEOUT_S)) - begun_s


def worker(setting: Setting) -> Outcome:
    """A worker is killed right after it has claimed, which leaves most of the lease; another one takes over."""
    lease_s = setting.size.lease_s
    worst: list[float] = []
    every: list[float] = []
    kind = type("Leased", (ByBroker,), {"settings": {"saga_lease": lease_s}})
    for number in range(setting.size.worker_kills):
        with kind(setting.size.lost_steps) as sagas:
            victim = sagas.worker
            with running(sagas):
                runs = _hanging(sagas, setting.size.lost_steps)
                heir = sagas.place.worker(concurrency=setting.size.lost_steps, options=QUIET)
                with heir:
                    begun_s = time.monotonic()
                    victim.kill()
                    took_s = [float(run.wait(TIMEOUT_S)) - begun_s for run in runs]
        every += took_s
        worst.append(max(took_s) - lease_s)
        setting.say(f"kill {number + 1}, {len(took_s)} steps: at most {worst[-1]:.2f} s after the lease")
    measure = f"SIGKILLed worker: to the next attempt, beyond the lease of {lease_s:g} s, at most"
    row = Row(measure, at_most(2, "s"), Series("", "s", tuple(worst)))
    return Outcome([row], {"recovery": {"worker killed": every}})


def _hanging(sagas: ByBroker, count: int) -> list[Any]:
    """Runs whose first attempt has begun, and does not end."""
    before = len(_pids(sagas))
    runs = [sagas.shop.hanging.start() for _ in range(count)]
    wait_until(lambda: len(_pids(sagas)) == before + count, TIMEOUT_S, "the steps hang")
    return runs


def _pids(sagas: ByBroker) -> list[int]:
    return [int(line) for line in sagas.place.calls()]
