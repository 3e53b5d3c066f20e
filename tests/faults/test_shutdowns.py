"""Workers that are told to end, in every way in which deploys do it: no step is lost, none is done under two tokens."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.points import Fault
from tests.faults.sagas import s3, two
from tests.faults.world import check, world_with
from tests.lanes.served import free
from tests.workers import wait_until

pytestmark = pytest.mark.heavy
DEPLOYS = 10
LANES = ("tests.lanes.served",)


def test_r057_threads_that_are_killed_in_the_middle_of_their_warm_shutdown(tmp_path: Path) -> None:
    settings = {"saga_lease": 1.0, "saga_sweep_interval": 0.2}
    with world_with("redis", tmp_path, **settings) as world:
        runs = [free.start(f"o{number}") for number in range(24)]
        with world.worker(modules=LANES, pool="threads", concurrency=2) as first:
            wait_until(lambda: len(world.effects()) >= 3, what="some began")
            os.kill(first.pid, signal.SIGTERM)
            first.wait_for_line("Warm shutdown")
            first.kill()
        assert world.statuses(runs)["completed"] < 24
        with world.worker(modules=LANES, pool="threads", concurrency=4):
            assert world.wait_ended(runs, 30) == {"completed": 24}
            check(world, runs, drained=lambda: not world.messages())


def test_r058_a_signal_to_the_whole_group_of_processes(tmp_path: Path) -> None:
    plan = [Fault("o", "b", "before_effect", "hold")]
    with world_with("redis", tmp_path) as world:
        with world.worker(plan) as first:
            run = s3.start("o")
            world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'b' AND status = 'running'", 1)
            os.killpg(os.getpgid(first.pid), signal.SIGTERM)
            world.release("o", "b")
            wait_until(lambda: not first.is_running, what="the end of the worker")
        with world.worker(plan):
            assert world.wait_ended([run], 30) == {"completed": 1}
            check(world, [run])


def test_r059_a_cancel_while_the_worker_that_runs_the_step_is_ending(tmp_path: Path) -> None:
    plan = [Fault("o", "b", "before_effect", "hold")]
    with world_with("redis", tmp_path) as world:
        with world.worker(plan) as first:
            run = two.start("o")
            world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'b' AND status = 'running'", 1)
            os.kill(first.pid, signal.SIGTERM)
            first.wait_for_line("Warm shutdown")
            run.cancel()
            world.release("o", "b")
            wait_until(lambda: not first.is_running, what="the end of the worker")
            by_first = len(world.effects(run))
        assert by_first == 2
        with world.worker():
            assert world.wait_ended([run], 30) == {"cancelled": 1}
            assert [each.key for each in world.effects(run)] == ["a", "b", "b!undo", "a!undo"]
            check(world, [run])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_r054_of_ten_deploys_one_after_the_other_none_loses_a_run(broker: str, tmp_path: Path) -> None:
    """R054, R055: messages got lost while workers ended."""
    with world_with(broker, tmp_path) as world:
        fleet = [world.worker().start() for _ in range(2)]
        runs = []
        try:
            for _ in range(DEPLOYS):
                runs += [s3.start(f"o{len(runs) + number}") for number in range(10)]
                os.kill(fleet[0].pid, signal.SIGTERM)
                fleet = [*fleet[1:], world.worker().start()]
            statuses = world.wait_ended(runs, 180)
        finally:
            for worker in fleet:
                worker.stop()
        wait_until(lambda: not any(worker.is_running for worker in world.started), what="the end of all workers")
        assert statuses == {"completed": len(runs)}
        assert len(world.effects()) == 3 * len(runs)
        with world.worker():  # for wake-ups that were sent again: one that is told to end takes what it holds with it
            check(world, runs)
