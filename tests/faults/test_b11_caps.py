"""How often a step starts: exactly as often as its policy says, whatever raises, dies or is delivered again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from celery_saga import RunHandle, StepLost
from tests.faults.points import Fault, Refused
from tests.faults.sagas import autoretried, two
from tests.faults.world import World, check, world_with
from tests.workers import wait_until

QUICK_S = 0.2


def _gaps_s(world: World, run: RunHandle[Any], key: str) -> list[float]:
    times = [each.ts for each in world.effects(run, key=key)]
    return [(b - a).total_seconds() for a, b in pairwise(times)]


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_b11_a_step_that_raises_starts_as_often_as_its_policy_says_and_no_sooner(broker: str, tmp_path: Path) -> None:
    plan = [Fault("*", "b", "after_effect", "raise", None)]
    with world_with(broker, tmp_path, saga_sweep_interval=QUICK_S) as world, world.worker(plan):
        runs = {attempts: two.start(f"o{attempts}", attempts, 0.5) for attempts in (1, 2, 4)}
        assert world.wait_ended(list(runs.values()), 30) == {"failed": 3}

        for attempts, run in runs.items():
            assert [each.attempt for each in world.effects(run, key="b")] == list(range(1, attempts + 1))
            for gap_s, delay_s in zip(_gaps_s(world, run, "b"), (0.5, 1.0, 2.0), strict=False):
                assert delay_s <= gap_s <= delay_s + 1.0
            assert world.received(run, "b") == attempts  # one message each
            assert [each.key for each in world.effects(run)][-1:] == ["a!undo"]
        check(world, list(runs.values()))


@pytest.mark.parametrize("max_stalls", [2, 5])
def test_b11_a_step_that_kills_its_process_starts_max_stalls_times_and_once_more(
    max_stalls: int, tmp_path: Path
) -> None:
    plan = [Fault("*", "b", "after_effect", "kill", None)]
    settings = {"saga_max_stalls": max_stalls, "saga_sweep_interval": QUICK_S}
    with world_with("redis", tmp_path, **settings) as world, world.worker(plan):
        run = two.start("poison")
        assert world.wait_ended([run], 60) == {"failed": 1}

        assert [each.key for each in world.effects(run)] == ["a", *["b"] * (max_stalls + 1), "b!undo", "a!undo"]
        step = world.step(run, "b")
        assert (step.attempt, step.stalls, step.failures, step.maybe) == (max_stalls + 1, max_stalls + 1, 0, True)
        assert isinstance(run.error, StepLost)
        assert world.received(run, "b") == max_stalls + 1
        check(world, [run])


def test_b11_the_default_policy_of_a_task_that_catches_all_is_counted_rightly(tmp_path: Path) -> None:
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world, world.worker():
        own, ours = autoretried.start("own"), autoretried.start("ours", 2)
        assert world.wait_ended([own, ours], 30) == {"failed": 2}

        assert len(world.effects(own, key="b")) == 4  # max_retries=3
        assert len(world.effects(ours, key="b")) == 2  # Retry(max_attempts=2)
        assert isinstance(own.error, Refused)
        assert isinstance(ours.error, Refused)
        check(world, [own, ours])


def test_b11_messages_under_new_ids_add_no_attempt(tmp_path: Path) -> None:
    """While the attempt runs, in its back-off, and after its end: ids on a message are not what counts."""
    plan = [Fault("o", "b", "before_effect", "hold"), Fault("o", "b", "after_effect", "raise", 1)]
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world, world.worker(plan):
        run = two.start("o", 2, 2.0)
        running = "SELECT count(*) FROM saga_step WHERE key = 'b' AND status = %s AND attempt = %s"
        world.wait_sql(running, 1, "running", 1)
        _send_five(world, run)
        world.release("o", "b")
        world.wait_sql(running, 1, "scheduled", 1)
        _send_five(world, run)
        assert world.wait_ended([run], 20) == {"completed": 1}
        _send_five(world, run)

        assert [each.attempt for each in world.effects(run, key="b")] == [1, 2]
        (gap_s,) = _gaps_s(world, run, "b")
        assert 2.0 <= gap_s <= 3.0
        check(world, [run])


def _send_five(world: World, run: RunHandle[Any]) -> None:
    before = len([line for worker in world.started for line in worker.text.splitlines() if "faults.do[" in line])
    for _ in range(5):
        world.send_again(run, "b", task_id=str(uuid4()))

    def all_came() -> bool:
        lines = [line for worker in world.started for line in worker.text.splitlines()]
        return len([line for line in lines if "faults.do[" in line and "received" in line]) >= 5 and len(lines) > before

    wait_until(all_came, what="five messages were received")
    wait_until(lambda: world.depth() == 0, what="an empty broker")
