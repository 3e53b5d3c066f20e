"""A rolling deploy: on one queue a worker that lacks a step's task, or the saga, beside one that has all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.sagas import s3
from tests.faults.world import MODULES, check, world_with
from tests.workers import workers


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("broker", "lacks", "count"),
    [
        ("redis", "tests.faults.step_c", 15),
        ("redis", "tests.faults.step_c", 50),
        ("rabbitmq", "tests.faults.step_c", 50),
        ("redis", "tests.faults.sagas", 10),
    ],
)
def test_b03_what_an_older_worker_does_not_know_is_done_by_a_newer_one(
    broker: str, lacks: str, count: int, tmp_path: Path
) -> None:
    older = [module for module in MODULES if module != lacks]
    quick = {"saga_lease": 1.0, "saga_sweep_interval": 0.5}
    with (
        world_with(broker, tmp_path, **quick) as world,
        workers(world.worker(modules=older), world.worker()) as (old, _),
    ):
        runs = [s3.start(f"o{number}") for number in range(count)]
        assert world.wait_ended(runs, 180) == {"completed": count}

        assert [each for each in world.effects() if each.key.endswith("!undo")] == []
        by_old = set(old.children())
        assert {each.pid for each in world.effects()} & by_old  # it took part
        if lacks.endswith("step_c"):
            assert "needs the task 'faults.c', which this worker does not have" in old.text
            assert not {each.pid for each in world.effects(key="c")} & by_old
        assert {step.failures for step in world.steps()} == {0}
        check(world, runs)
