"""Steps that take longer than a lease, in a process that lives and in one that is stopped."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from celery_saga import RunHandle
from tests.faults.crowd import WITH_PHASES
from tests.faults.phases import plain, routed
from tests.faults.points import Fault
from tests.faults.world import LEASE_S, World, check, world_with
from tests.workers import wait_until

LONG_S = 20.0
POOLS = ("prefork", "threads")
RUNNING_FOR = """SELECT count(*) FROM saga_step WHERE key = 'a' AND status = 'running' AND attempt = 1
                 AND clock_timestamp() - started_at > make_interval(secs => %s)"""


def test_a_step_of_twenty_seconds_under_a_lease_of_three_is_started_once(tmp_path: Path) -> None:
    plan = [Fault(pool, "a", "before_effect", "hold") for pool in POOLS]

    with world_with("rabbitmq", tmp_path) as world:
        prefork, threads = (
            world.worker(plan, modules=WITH_PHASES, pool=pool, options=("-Q", f"celery,{pool}")) for pool in POOLS
        )
        with prefork, threads:
            runs = [routed.start(pool, pool) for pool in POOLS]
            world.wait_sql(RUNNING_FOR, len(POOLS), LONG_S, timeout_s=LONG_S + 10)
            for pool in POOLS:
                world.release(pool, "a")

            assert world.wait_ended(runs, 10) == {"completed": len(POOLS)}
            assert {(step.attempt, step.stalls, step.failures) for step in world.steps(*runs)} == {(1, 0, 0)}
            assert [world.received(run, "a") for run in runs] == [1, 1]
            assert len(world.effects(*runs)) == len(POOLS)
            check(world, runs)


def test_a_stopped_child_is_overtaken_and_what_it_checks_in_later_is_refused(tmp_path: Path) -> None:
    plan = [Fault("stopped", "a", "before_effect", "hold")]

    with world_with("redis", tmp_path) as world, world.worker(plan, modules=WITH_PHASES, concurrency=2) as worker:
        run = plain.start("stopped")
        child = psutil.Process(_pid_of_attempt(world, run, 1))
        assert child.pid in worker.children()
        child.suspend()
        try:
            world.release("stopped", "a")
            assert world.wait_ended([run], LEASE_S * 4) == {"completed": 1}
        finally:
            child.resume()
        refused = worker.wait_for_line("attempt 1: its lease had ended, so its outcome does not count")

        assert "celery_saga.step" in refused
        wait_until(lambda: len(world.effects(run, key="a")) == 2, what="the effect of the attempt that was overtaken")
        assert run.wait(1) == "stopped"
        (step,) = [step for step in world.steps(run) if step.key == "a"]
        assert (step.status, step.attempt, step.stalls) == ("done", 2, 1)
        taken_over, late = world.effects(run, key="a")
        assert [taken_over.attempt, late.attempt] == [2, 1]
        assert taken_over.token == late.token
        assert step.ended_at is not None and taken_over.ts < step.ended_at < late.ts
        assert child.pid in worker.children()
        history = [(row.action.value, row.step) for row in run.history()]
        assert history == [("lost", "a"), ("ok", "a"), ("ok", "b"), ("end", None)]


def _pid_of_attempt(world: World, run: RunHandle[str], attempt: int) -> int:
    held = "SELECT attempt FROM saga_step WHERE run_id = %s AND key = 'a' AND status = 'running'"
    world.wait_sql(held, attempt, run.id)
    ((owner,),) = world.sql("SELECT owner FROM saga_step WHERE run_id = %s AND key = 'a'", run.id)
    pid = int(owner.rpartition(":")[2])
    assert os.getpid() != pid > 0
    return pid
