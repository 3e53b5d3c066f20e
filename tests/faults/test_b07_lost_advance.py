"""The way from one step to the next is lost: its process dies around the wake-up, or the broker loses that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from celery_saga import RunHandle
from tests.faults.points import Fault
from tests.faults.sagas import TEN, ten
from tests.faults.world import LEASE_S, SWEEP_S, World, check, world_with

LOSSES = {
    "dies before the wake-up": ("after_checkpoint", "kill"),
    "dies after the wake-up": ("after_publish", "kill"),
    "the wake-up is dropped": ("after_checkpoint", "drop"),
}
QUICK_S, LOOK_S = 1.0, 0.25
# A look that finds the other runs' messages in the queue puts the wake-up off, each time for twice as long.
LOOKS_S = QUICK_S * (1 + 2 + 4)
SLACK_S = 8.0  # a new pool child, on a machine that has more to do


@pytest.mark.timeout(240)
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
@pytest.mark.parametrize("steps", [(TEN[0], TEN[5], TEN[-1]), TEN], ids=["three steps", "ten steps"])
def test_b07_a_lost_advance_is_made_up_by_the_sweeper_and_no_step_is_skipped(
    broker: str, steps: tuple[str, ...], tmp_path: Path
) -> None:
    """Three runs at a time: a wake-up is sent again when its queue is empty, so the queue must come to rest."""
    waves = [[Fault(f"{step} {how}", step, at, action) for how, (at, action) in LOSSES.items()] for step in steps]
    plan = [fault for wave in waves for fault in wave]
    with world_with(broker, tmp_path, saga_lease=QUICK_S, saga_sweep_interval=LOOK_S) as world, world.worker(plan):
        runs = {}
        for wave in waves:
            here = {fault: ten.start(fault.order) for fault in wave}
            assert world.wait_ended(list(here.values()), 30) == {"completed": len(wave)}
            runs |= here

        for fault, run in runs.items():
            assert [each.key for each in world.effects(run)] == list(TEN), fault
            if fault.step != TEN[-1]:
                gap_s = _gap_s(world, run, fault.step)
                assert gap_s <= LOOKS_S + 3 * LOOK_S + SLACK_S, fault
                assert fault.at == "after_publish" or gap_s >= QUICK_S - 0.1, f"{fault} did not happen"
        check(world, list(runs.values()))


def _gap_s(world: World, run: RunHandle[Any], step: str) -> float:
    """Seconds from the checkpoint of a step to the start of the one that follows."""
    ended_at = world.step(run, step).ended_at
    started_at = world.step(run, TEN[TEN.index(step) + 1]).started_at
    assert ended_at is not None
    assert started_at is not None
    return (started_at - ended_at).total_seconds()


def test_b07_wake_ups_that_the_broker_loses_before_anybody_works_are_sent_again(tmp_path: Path) -> None:
    with world_with("rabbitmq", tmp_path) as world:
        runs = [ten.start(f"o{number}") for number in range(10)]
        assert world.purge() == 10
        with world.worker():
            assert world.wait_ended(runs, LEASE_S + 2 * SWEEP_S + 15) == {"completed": 10}
            check(world, runs)
