"""Celery's revoke, as Flower's buttons send it: to a run it means nothing, and a step of a run goes on without it."""

from __future__ import annotations

from pathlib import Path

from celery_saga.runtime.messages import task_id_of
from tests.faults.points import Fault
from tests.faults.sagas import two
from tests.faults.world import check, world_with


def test_b24_a_revoke_ends_no_run_and_cancels_no_step(tmp_path: Path) -> None:
    """Of a run's id; of a step that waits behind another one in the only slot; of one that runs, with its process."""
    plan = [Fault(order, "a", "before_effect", "hold") for order in ("run", "ended")]
    settings = {"saga_lease": 1.0, "saga_sweep_interval": 0.2, "worker_prefetch_multiplier": 4}
    with world_with("redis", tmp_path, **settings) as world, world.worker(plan, concurrency=1) as worker:
        runs = {"run": two.start("run")}
        world.wait_sql("SELECT count(*) FROM saga_step WHERE status = 'running'", 1)
        revoke = world.app.control.revoke
        revoke(runs["run"].id, reply=True, limit=1, timeout=10, destination=[worker.name])
        world.release("run", "a")
        assert world.wait_ended([runs["run"]], 20) == {"completed": 1}

        runs["ended"] = two.start("ended")
        world.wait_sql("SELECT count(*) FROM saga_step WHERE status = 'running'", 1)
        message = task_id_of(world.step(runs["ended"], "a"))
        revoke(message, terminate=True, signal="SIGKILL", reply=True, limit=1, timeout=10, destination=[worker.name])
        runs["later"] = two.start("later")

        assert world.wait_ended(list(runs.values()), 30) == {"completed": 3}
        step = world.step(runs["ended"], "a")
        assert task_id_of(step) != message  # what was revoked stays revoked
        assert (step.attempt, step.failures, step.stalls) == (2, 0, 1)
        check(world, list(runs.values()))
