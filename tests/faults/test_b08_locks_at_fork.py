"""Children forked while another thread of the worker's main process is in the middle of its work."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from tests.faults.crowd import WITH_PHASES
from tests.faults.phases import counting
from tests.faults.slow_sweeper import CALLS, FORKS, HOLD_S, TICKS, measured
from tests.faults.world import check, world_with

STEPS_EACH = 10
CHILDREN = 8  # Celery itself replaces children only about every 1.2 s: two of them would need minutes
GATE_S, A_LITTLE_S = 0.1, 0.1  # the bound of the gate; to get a core again where two are busy
BESIDE_OTHERS_S = 0.5  # the same for one fork of all, where other tests have the cores meanwhile
BLOCKED_S = 1.0


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("of", "late_s"), [(5, BESIDE_OTHERS_S), (20, A_LITTLE_S)], ids=["50 steps", "200 steps"])
def test_b08_no_child_inherits_a_lock_and_no_fork_waits_for_a_slow_sweeper(
    of: int, late_s: float, tmp_path: Path
) -> None:
    one_each = ("--max-tasks-per-child", "1")
    modules = (*WITH_PHASES, "tests.faults.slow_sweeper")

    with (
        world_with("redis", tmp_path, saga_sweep_interval=0.2, saga_lease=10.0) as world,
        world.worker(modules=modules, concurrency=CHILDREN, options=one_each) as worker,
    ):
        main_pid = worker.pid
        runs = [counting.start(f"o{n}", STEPS_EACH) for n in range(of)]
        statuses = world.wait_ended(runs, 120)
        forks = [each["took_s"] for each in measured(tmp_path, FORKS) if each["pid"] == main_pid]
        calls = [each for each in measured(tmp_path, CALLS) if each["pid"] != main_pid]
        ticks = [each["took_s"] for each in measured(tmp_path, TICKS)]

        assert statuses == {"completed": of}
        assert {step.attempt for step in world.steps(*runs)} == {1}
        assert len(world.steps(*runs)) == of * STEPS_EACH
        assert [tick for tick in ticks if tick < HOLD_S] == []
        assert len(ticks) > 5
        assert len(forks) > of * STEPS_EACH
        assert sum(took_s >= GATE_S for took_s in forks) > of * STEPS_EACH / 4, "the sweeper was never in a fork's way"
        assert median(forks) < GATE_S + A_LITTLE_S / 4
        assert max(forks) < GATE_S + late_s, sorted(forks)[-5:]
        assert [call for call in calls if call["took_s"] > BLOCKED_S] == []
        assert len(calls) > 2 * of * STEPS_EACH
        assert worker.pid == main_pid
        check(world, runs)
