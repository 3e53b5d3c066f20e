"""How much is measured: all of it, in under two minutes, or only that it can be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Numbers of repetitions, runs, steps.

    Args:
        rounds: repetitions; in each, every contestant has one turn.
        seconds: about how long one turn of a throughput lasts.
        waits: results, signals and pairs of starts that are waited for, in each round.
        timers: runs that sleep, in each round, over `timers_s` seconds.
        long: steps of a run whose last steps are compared with step 10.
        few: rounds of what takes long.
        old_runs: ended runs beside which a step is measured.
        items: of a map whose last items are compared with item 100.
        sleepers: runs that sleep beside an idle worker.
        idle_s: for how long that worker is watched.
        kills: of pool processes, in each round.
        lost_steps: that a killed worker has in hand.
        worker_kills: workers that are killed.
        lease_s: `saga_lease` of a worker that is killed.
        start_ups: of workers, and imports.
        workers: numbers of processes that the plot compares.
        profiles: whether it is sampled where Python's time goes.
    """

    name: str
    rounds: int
    seconds: float
    waits: int
    timers: int
    timers_s: float
    long: int
    few: int
    old_runs: int
    items: int
    sleepers: int
    idle_s: float
    kills: int
    lost_steps: int
    worker_kills: int
    lease_s: float
    start_ups: int
    workers: tuple[int, ...]
    profiles: bool = True


FULL = Size(
    "full",
    rounds=5,
    seconds=4.0,
    waits=60,
    timers=200,
    timers_s=10.0,
    long=1000,
    few=2,
    old_runs=1_000_000,
    items=10_000,
    sleepers=100_000,
    idle_s=20.0,
    kills=10,
    lost_steps=8,
    worker_kills=2,
    lease_s=30.0,
    start_ups=10,
    workers=(1, 2, 4),
)
QUICK = Size(
    "quick",
    rounds=2,
    seconds=0.7,
    waits=15,
    timers=30,
    timers_s=1.5,
    long=300,
    few=1,
    old_runs=10_000,
    items=500,
    sleepers=20_000,
    idle_s=3.0,
    kills=3,
    lost_steps=4,
    worker_kills=1,
    lease_s=2.0,
    start_ups=1,
    workers=(),
    profiles=False,
)
TINY = Size(
    "tiny",
    rounds=1,
    seconds=0.1,
    waits=3,
    timers=5,
    timers_s=0.5,
    long=100,
    few=1,
    old_runs=1_000,
    items=300,
    sleepers=1_000,
    idle_s=1.0,
    kills=1,
    lost_steps=1,
    worker_kills=1,
    lease_s=1.0,
    start_ups=1,
    workers=(1,),
)
SIZES = {size.name: size for size in (FULL, QUICK, TINY)}
