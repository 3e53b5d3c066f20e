"""A pool child killed at any instruction of a step: before and after its effect, its checkpoint, its wake-ups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.points import POINTS, Fault
from tests.faults.sagas import s3
from tests.faults.world import check, world_with

STEPS = ("a", "b", "c", "b!undo")


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
@pytest.mark.parametrize("reject_on_worker_lost", [None, True])
def test_b01_a_killed_child_costs_one_attempt_and_never_the_run(
    broker: str, reject_on_worker_lost: bool | None, tmp_path: Path
) -> None:
    more = {"task_acks_late": True}
    if reject_on_worker_lost is not None:
        more["task_reject_on_worker_lost"] = reject_on_worker_lost
    cells = {f"{step}.{point}": (step, point) for step in STEPS for point in POINTS}
    plan = [Fault(order, *cell) for order, cell in cells.items()]
    plan += [Fault(order, "c", "before_effect", "raise", None) for order in cells if order.startswith("b!undo")]

    with world_with(broker, tmp_path, **more) as world, world.worker(plan):
        runs = {order: s3.start(order) for order in cells}
        world.wait_ended(list(runs.values()), 30)

        for order, (step, point) in cells.items():
            run = runs[order]
            undoes = step == "b!undo"
            assert run.refresh().status == ("failed" if undoes else "completed"), order
            expected = {"a": 1, "b": 1, "b!undo": 1, "a!undo": 1} if undoes else {"a": 1, "b": 1, "c": 1}
            expected[step] = 2 if point == "after_effect" else 1
            found = [effect.key for effect in world.effects(run)]
            assert {key: found.count(key) for key in found} == expected, order
        assert len(list(tmp_path.glob("kill.*"))) == len(cells)  # each child died where it should
        check(world, list(runs.values()))
