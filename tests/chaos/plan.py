"""A seed's whole chaos, decided before anything begins: who comes when with which tree, and what breaks when."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.chaos.trees import Grower, Node, Wait, walk

FAULTS = {
    "kill_child": 4,
    "kill_worker": 2,
    "stop_worker": 2,
    "freeze_child": 2,
    "freeze_worker": 2,
    "flush_broker": 2,
    "restart_broker": 1,
    "restart_database": 1,
    "kill_database": 1,
    "cut_connections": 3,
}
"""Kinds of faults, and how often each comes beside the others."""
SLOTS = 2
"""Workers at a time."""
RUNS_A_SECOND, EVERY_S = 1.5, 4.0
"""How often somebody starts a run, and how often something breaks, on average."""
FIRST_FAULT_S = 2.0
SHORT_S, LONG_S = 1.5, 9.0
"""A process that stands still for shorter than a lease, and for longer."""


@dataclass(frozen=True)
class Arrival:
    """One run that somebody starts.

    Args:
        at_s: when, from the beginning.
        order: its key.
        dispatch: `broker` or `inline`.
        signals: name and time of each signal, from its start.
        cancel_s: when it is cancelled, from its start; None: never.
    """

    at_s: float
    order: str
    dispatch: str
    tree: Node
    signals: tuple[tuple[str, float], ...]
    cancel_s: float | None


@dataclass(frozen=True)
class Fault:
    """Something that breaks.

    Args:
        at_s: when, from the beginning.
        slot: which worker, where it is about one.
        lasts_s: how long something is away, or stands still.
        pick: which child, of as many as there are.
    """

    at_s: float
    kind: str
    slot: int
    lasts_s: float
    pick: int


@dataclass(frozen=True)
class Plan:
    """What a seed means for so many seconds."""

    seed: int
    seconds: float
    arrivals: tuple[Arrival, ...]
    faults: tuple[Fault, ...]


def plan_of(seed: int, seconds: float) -> Plan:
    """The same for the same arguments, always. A short one breaks as many things, one after the other the sooner."""
    return Plan(seed, seconds, _arrivals(seed, seconds), _faults(seed, seconds, min(EVERY_S, seconds / len(FAULTS))))


def _arrivals(seed: int, seconds: float) -> tuple[Arrival, ...]:
    dice = Random(f"arrivals of {seed}")  # noqa: S311  # dice, no secret
    grower = Grower(dice)
    found, at_s = [], 0.0
    while at_s < seconds:
        tree = grower.tree()
        waits = [each.name for each in walk(tree) if isinstance(each, Wait)]
        found.append(
            Arrival(
                at_s,
                f"o{len(found)}",
                dice.choice(["broker", "broker", "inline"]),
                tree,
                tuple((name, dice.uniform(0, 8)) for name in waits),
                dice.uniform(0, 6) if dice.random() < 0.12 else None,
            )
        )
        at_s += dice.expovariate(RUNS_A_SECOND)
    return tuple(found)


def _faults(seed: int, seconds: float, every_s: float) -> tuple[Fault, ...]:
    """The first ones are of all kinds, so that a short chaos has as many kinds as it has room for."""
    dice = Random(f"faults of {seed}")  # noqa: S311
    kinds = list(FAULTS)
    dice.shuffle(kinds)
    found: list[Fault] = []
    at_s = FIRST_FAULT_S
    while at_s < seconds:
        kind = kinds.pop() if kinds else dice.choices(list(FAULTS), list(FAULTS.values()))[0]
        freezes = kind.startswith("freeze")
        lasts_s = dice.choice([SHORT_S, LONG_S]) if freezes else dice.uniform(0.5, 3.0)
        found.append(Fault(at_s, kind, dice.randrange(SLOTS), lasts_s, dice.randrange(100)))
        at_s += dice.uniform(0.3, 1.7) * every_s
    return tuple(found)
