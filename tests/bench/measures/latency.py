"""How long somebody waits: for the result of a run, after a signal, past the time of a timer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median

from tests.bench.contestants.chains import RedisResults
from tests.bench.contestants.contestant import running
from tests.bench.contestants.ours import ByBroker
from tests.bench.measures.measure import Outcome, Setting
from tests.bench.rows import Row, Series, at_most, percentile
from tests.workers import wait_until

WARM = 10
TIMEOUT_S = 60


def result(setting: Setting) -> Outcome:
    """Start to result of one step that does nothing, beside a task's, one of each in turns."""
    names = ("by a message", "inline", "delay().get()")
    p50_ms: dict[str, list[float]] = {name: [] for name in names}
    with ByBroker(setting.processes) as sagas, RedisResults(setting.processes) as chains:
        by_message, inline = sagas.shop.one, sagas.shop.one_inline
        nothing = chains.app.tasks["bench.chains.nothing"]
        with running(sagas, chains):
            for number in range(setting.size.rounds):
                took_ms = _in_turns(
                    (WARM if number == 0 else 0) + setting.size.waits,
                    lambda: by_message.start().wait(TIMEOUT_S),
                    lambda: inline.start().wait(TIMEOUT_S),
                    lambda: nothing.delay().get(timeout=TIMEOUT_S),
                )
                for name, its in zip(names, took_ms, strict=True):
                    p50_ms[name].append(median(its[-setting.size.waits :]))
                setting.say(
                    f"round {number + 1}, p50: " + ", ".join(f"{n} {its[-1]:.1f} ms" for n, its in p50_ms.items())
                )
    by_message_s, inline_s, task_s = (Series(name, "ms", tuple(its)) for name, its in p50_ms.items())
    measure = "start to result, one step{}, p50, against task.delay().get()"
    return Outcome(
        [
            Row(measure.format(""), at_most(1.5), by_message_s, task_s),
            Row(measure.format(" inline"), at_most(1.5), inline_s, task_s),
        ]
    )


def _in_turns(times: int, *several: Callable[[], object]) -> list[list[float]]:
    """How long each takes, in ms, in turns."""
    took_ms: list[list[float]] = [[] for _ in several]
    for _ in range(times):
        for each, its in zip(several, took_ms, strict=True):
            begun_s = time.perf_counter()
            each()
            its.append((time.perf_counter() - begun_s) * 1000)
    return took_ms


def signal(setting: Setting) -> Outcome:
    """From the call of `signal()` to the first line of the step behind the wait."""
    each_round: list[float] = []
    with ByBroker(setting.processes) as sagas, running(sagas):
        for number in range(setting.size.rounds):
            took_ms = [_signal_ms(sagas) for _ in range((WARM if number == 0 else 0) + setting.size.waits)]
            each_round.append(median(took_ms[-setting.size.waits :]))
            setting.say(f"round {number + 1}, p50: {each_round[-1]:.1f} ms")
    ours = Series("celery_saga", "ms", tuple(each_round))
    return Outcome([Row("signal to resumed step, p50", at_most(20, "ms"), ours)])


def _signal_ms(sagas: ByBroker) -> float:
    run = sagas.shop.signalled.start()
    wait_until(lambda: run.refresh().status == "waiting", TIMEOUT_S, "the run waits")
    begun_s = time.monotonic()  # one clock for all processes of this machine, as the step's
    run.signal("go")
    return (run.wait(TIMEOUT_S) - begun_s) * 1000


def timers(setting: Setting) -> Outcome:
    """Runs that sleep until times spread at random: how late the step behind begins."""
    each_round: list[float] = []
    rng = random.Random(6)
    with ByBroker(setting.processes) as sagas, running(sagas):
        _lateness_s(sagas, [0.5])
        for number in range(setting.size.few):
            after_s = [1.0 + rng.uniform(0, setting.size.timers_s) for _ in range(setting.size.timers)]
            each_round.append(percentile(_lateness_s(sagas, after_s), 99))
            setting.say(f"round {number + 1}, {len(after_s)} timers, p99: {each_round[-1]:.2f} s late")
    ours = Series("celery_saga", "s", tuple(each_round))
    return Outcome([Row("timer lateness, p99", at_most(1, "s"), ours)])


def _lateness_s(sagas: ByBroker, after_s: list[float]) -> list[float]:
    """Of runs that were all asleep before the first of these times, which count from then on."""
    lead_s = 0.05 * len(after_s)
    while True:
        begin_at = datetime.now(UTC) + timedelta(seconds=lead_s)
        due = [begin_at + timedelta(seconds=each) for each in after_s]
        runs = [sagas.shop.sleeping.start(at) for at in due]
        wait_until(lambda: _awake(sagas) == 0, TIMEOUT_S, "all asleep")
        if datetime.now(UTC) < begin_at:
            return [run.wait(TIMEOUT_S) - at.timestamp() for run, at in zip(runs, due, strict=True)]
        lead_s *= 2


def _awake(sagas: ByBroker) -> int:
    with sagas.connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM saga_run WHERE status IN ('queued', 'running')")
        return int(cursor.fetchone()[0])
