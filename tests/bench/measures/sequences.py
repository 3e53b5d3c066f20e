"""Steps a second of many sequences of ten steps that do nothing, each contestant in its turn, over and over."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from tests.bench.contestants.chains import RedisResults, SqlResults
from tests.bench.contestants.contestant import Contestant
from tests.bench.contestants.inserts import Inserts
from tests.bench.contestants.ours import ByBroker, Inline, InlineSideBySide
from tests.bench.contestants.peers import Absurd, Dbos
from tests.bench.measures.measure import Outcome, Setting
from tests.bench.rows import Row, Series, Target, at_least

UNIT = "steps/s"


def broker(setting: Setting) -> Outcome:
    """Each step a message, beside Celery's chains."""
    return _beside(
        setting,
        ByBroker,
        "10-step sequence, broker mode",
        ((RedisResults, at_least(1.0)), (SqlResults, at_least(4.0))),
    )


def inline(setting: Setting) -> Outcome:
    """No message between steps, beside the peers and what the disk allows."""
    return _beside(
        setting,
        InlineSideBySide,
        "10-step sequence, inline",
        ((Dbos, at_least(4.0)), (Absurd, at_least(1.5)), (Inserts, at_least(0.5))),
    )


def workers(setting: Setting) -> Outcome:
    """How each gets on with more processes; no target."""
    kinds = [kind for kind in (ByBroker, Inline, RedisResults, SqlResults, Dbos, Absurd) if not kind.missing()]
    lines: dict[str, Any] = {kind.name: [] for kind in kinds}
    for processes in setting.size.workers:
        setting.say(f"{processes} processes")
        found, _ = rates(setting, kinds, processes, rounds=setting.size.few)
        for name, series in found.items():
            lines[name].append([processes, series.median])
    return Outcome([], {"workers": lines} if setting.size.workers else {})


def _beside(
    setting: Setting, ours: type[Contestant], measure: str, theirs: Sequence[tuple[type[Contestant], Target]]
) -> Outcome:
    present = [kind for kind, _ in theirs if not kind.missing()]
    found, cpu_ms = rates(setting, (ours, *present), setting.processes)
    mine = found[ours.name]
    rows = [
        Row(f"{measure}, against {kind.name}", target, mine, found.get(kind.name), kind.missing())
        for kind, target in theirs
    ]
    return Outcome(rows, {"cpu_ms": cpu_ms})


def rates(
    setting: Setting, kinds: Sequence[type[Contestant]], processes: int, rounds: int | None = None
) -> tuple[dict[str, Series], dict[str, Any]]:
    """Of each contestant, one reading a round; in a round each has one turn.

    Returns:
        The rates; and what a step takes of the processors, in ms, in the processes and in PostgreSQL.
    """
    readings: dict[str, list[float]] = {kind.name: [] for kind in kinds}
    cpu: dict[str, list[tuple[float, float]]] = {kind.name: [] for kind in kinds}
    with ExitStack() as stack:
        several = [stack.enter_context(kind(processes)) for kind in kinds]
        for each in several:  # once before: everything is loaded, and known for how long how many runs last
            each.rate(setting.size.seconds / 4)
        for number in range(rounds or setting.size.rounds):
            for each in several:
                readings[each.name].append(each.rate(setting.size.seconds))
                cpu[each.name].append((each.used.processes_s * 1000, each.used.database_s * 1000))
            told = ", ".join(f"{name} {rates[-1]:.0f}" for name, rates in readings.items())
            setting.say(f"round {number + 1}, {UNIT}: {told}")
    cpu_ms = {name: [median(each) for each in zip(*pairs, strict=True)] for name, pairs in cpu.items()}
    setting.say(", ".join(f"{name} {a:.2f} + {b:.2f}" for name, (a, b) in cpu_ms.items()) + " ms of CPU a step")
    return {name: Series(name, UNIT, tuple(values)) for name, values in readings.items()}, cpu_ms
