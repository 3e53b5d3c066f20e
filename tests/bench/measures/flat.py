"""What grows with what: a step with those before it, or with old runs beside it, an item of a map with those before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, closing
from statistics import median
from typing import Any

import psycopg2

from celery_saga import Run, saga
from tests.bench.contestants.contestant import running
from tests.bench.contestants.ours import ByBroker, Inline, InlineAmongOldRuns, plain
from tests.bench.measures.measure import Outcome, Setting
from tests.bench.rows import Row, Series, Target, at_most
from tests.scenarios.house import House
from tests.servers import fresh_postgresql_database

SHORT = 20
SHORT_RUNS = 5
TIMEOUT_S = 900
_TIDY_EVERY = 2000
PLACES = (10, 25, 50, 100, 200, 300, 500, 700, 1000)


def inline_steps(setting: Setting) -> Outcome:
    """A late step of a long inline run, beside step 10 of short ones that follow at once."""
    return _steps(setting, "inline", "ticks_inline", {setting.size.long: at_most(1.1)})


def broker_steps(setting: Setting) -> Outcome:
    """The same by messages."""
    targets = {100: at_most(1.1), setting.size.long: at_most(1.5)}
    return _steps(setting, "broker mode", "ticks_by_broker", targets)


def _steps(setting: Setting, mode: str, name: str, targets: dict[int, Target]) -> Outcome:
    late_ms: dict[int, list[float]] = {step: [] for step in targets}
    early_ms: list[float] = []
    curve: dict[int, list[float]] = {}
    with ByBroker(setting.processes) as sagas, running(sagas):
        saga_of = getattr(sagas.shop, name)
        _executed_at_s(saga_of, 2 * SHORT)
        for number in range(setting.size.few):
            at_s = _executed_at_s(saga_of, setting.size.long + SHORT)
            short = [_executed_at_s(saga_of, SHORT) for _ in range(SHORT_RUNS)]
            early_ms.append(median(took for each in short for took in _around_ms(each, 10)))
            for step, its in late_ms.items():
                its.append(median(_around_ms(at_s, step)))
            for step in (each for each in PLACES if each <= setting.size.long):
                curve.setdefault(step, []).append(median(_around_ms(at_s, step)))
            told = ", ".join(f"step {step} {its[-1]:.2f} ms" for step, its in late_ms.items())
            setting.say(f"run {number + 1}: step 10 {early_ms[-1]:.2f} ms, {told}")
    early = Series("step 10", "ms", tuple(early_ms))
    rows = [
        Row(f"{mode}: step {step:,} against step 10", target, Series(f"step {step}", "ms", tuple(late_ms[step])), early)
        for step, target in targets.items()
    ]
    return Outcome(rows, {"length": {mode: [[step, median(its)] for step, its in curve.items()]}})


def _executed_at_s(saga_of: Any, steps: int) -> list[float]:
    """When each step of one run was executed, in seconds of the machine's monotonic clock."""
    run = saga_of.start(steps)
    run.wait(TIMEOUT_S)
    return [float(step.result) for step in run.steps() if step.kind == "step"]


def _around_ms(at_s: Sequence[float], step: int) -> list[float]:
    """What the steps around one took, up to fifty on either side, but no more than half of those before it."""
    window = min(50, max(1, step // 2))
    low, high = max(1, step - window), min(len(at_s), step + window + 1)
    return [(at_s[n] - at_s[n - 1]) * 1000 for n in range(low, high)]


def old_runs(setting: Setting) -> Outcome:
    """Inline sequences in two databases, in turns: an empty one, and one full of runs that ended long ago."""
    readings: dict[str, list[float]] = {"among": [], "alone": []}
    kind = type("Among", (InlineAmongOldRuns,), {"old_runs": setting.size.old_runs})
    with ExitStack() as stack:
        several = {
            "among": stack.enter_context(kind(setting.processes)),
            "alone": stack.enter_context(Inline(setting.processes)),
        }
        for each in several.values():
            each.rate(setting.size.seconds / 4)
        for number in range(setting.size.rounds):
            for name, each in several.items():
                readings[name].append(1000 * setting.processes / each.rate(setting.size.seconds))
            setting.say(f"round {number + 1}: {readings['among'][-1]:.2f} ms, alone {readings['alone'][-1]:.2f} ms")
    among, alone = (Series(name, "ms", tuple(its)) for name, its in readings.items())
    measure = f"inline: a step beside {setting.size.old_runs:,} old runs against none"
    return Outcome([Row(measure, at_most(1.1), among, alone)])


def map_items(setting: Setting) -> Outcome:
    """A late item of a long map beside item 100 of another, a message of each in turns, in this process."""
    early_at, window = 100, 50
    late_at = setting.size.items
    with (
        fresh_postgresql_database("psycopg2") as url,
        House(url) as house,
        closing(psycopg2.connect(plain(url))) as connection,
    ):
        connection.autocommit = True
        double = house.task("bench.double")(_double)

        @saga(name="bench-map")
        def body(run: Run, items: int) -> int:
            return len(run.map(double, range(items), concurrency=50))

        house.add(body)
        late_ms: list[float] = []
        early_ms: list[float] = []
        long = _Line(house, body.start(late_at + 2 * window * setting.size.few))
        for begun in range(0, late_at - window, _TIDY_EVERY):
            _tidy(connection)
            long.deliver(min(_TIDY_EVERY, late_at - window - begun))
        for number in range(setting.size.few):
            short = _Line(house, body.start(early_at + 2 * window))
            short.deliver(early_at - window)
            _tidy(connection)
            pairs = [(long.deliver(1), short.deliver(1)) for _ in range(2 * window)]
            late_ms.append(median(late for late, _ in pairs))
            early_ms.append(median(early for _, early in pairs))
            setting.say(f"round {number + 1}: {late_ms[-1]:.2f} ms, item {early_at} {early_ms[-1]:.2f} ms")
        long.deliver(None)
        assert long.run.refresh().status == "completed", long.run.error
    late = Series(f"item {late_at}", "ms", tuple(late_ms))
    early = Series(f"item {early_at}", "ms", tuple(early_ms))
    return Outcome([Row(f"map: item {late_at:,} against item {early_at}", at_most(1.1), late, early)])


def _tidy(connection: Any) -> None:
    """What autovacuum does by itself, where it is on as PostgreSQL has it."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE saga_run, saga_step, saga_history")


def _double(number: int) -> int:
    return 2 * number


class _Line:
    """The messages of one run, delivered apart from those of others."""

    def __init__(self, house: House, run: Any) -> None:
        self.house = house
        self.run = run
        self.waiting = deque(house.messages)
        house.messages.clear()

    def deliver(self, count: int | None) -> float:
        """So many of them, None: all there will be; how long that took, in ms."""
        begun_s = time.perf_counter()
        while self.waiting and count != 0:
            self.house.deliver(self.waiting.popleft())
            self.waiting.extend(self.house.messages)
            self.house.messages.clear()
            count = None if count is None else count - 1
        return (time.perf_counter() - begun_s) * 1000
