"""Hard time limits: each attempt that is cut off is counted once, and nobody waits for the database meanwhile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.limits import bounded
from tests.faults.points import Fault
from tests.faults.world import MODULES, check, world_with
from tests.servers import PrivatePostgres
from tests.workers import wait_until

WITH_LIMITS = (*MODULES, "tests.faults.limits")
HANGS = [Fault("o", "b", "after_effect", "hold", None), Fault("o", "a!undo", "after_effect", "hold")]
LOOKS, EACH_S, ANSWERED_S = 10, 0.5, 0.4


@pytest.mark.parametrize("acks_on_timeout", [True, pytest.param(False, marks=pytest.mark.heavy)])
def test_b19_each_attempt_that_is_cut_off_counts_once_on_the_way_and_in_undos(
    acks_on_timeout: bool, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "task_acks_late": True,
        "task_acks_on_failure_or_timeout": acks_on_timeout,
        "saga_sweep_interval": 0.2,
    }
    with world_with("redis", tmp_path, **settings) as world, world.worker(HANGS, modules=WITH_LIMITS):
        run = bounded.start("o")
        assert world.wait_ended([run], 30) == {"failed": 1}

        assert [each.key for each in world.effects(run)] == ["a", "b", "b", "b", "b!undo", "a!undo", "a!undo"]
        step, undo = world.step(run, "b"), world.step(run, "a!undo")
        assert (step.attempt, step.failures, step.stalls, step.maybe) == (3, 3, 0, True)
        assert (undo.attempt, undo.failures, undo.stalls) == (2, 1, 0)
        assert "1 s" in str(run.error)
        check(world, [run])


@pytest.mark.heavy
def test_b19_a_limit_that_is_hit_while_the_database_hangs_holds_up_no_worker(
    private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """The pool tells the main process, whose loop must go on: it is asked all the while."""
    plan = [Fault("o", "b", "after_effect", "hold", 1)]
    settings: dict[str, Any] = {"database_url": private_postgres.url}
    with world_with("redis", tmp_path, **settings) as world, world.worker(plan, modules=WITH_LIMITS) as worker:
        run = bounded.start("o")
        world.wait_effect(run, "b")
        private_postgres.freeze()
        try:
            wait_until(lambda: "Hard time limit" in worker.text, what="the limit was hit")
            took_s = [_answer_s(world.app, worker.name) for _ in range(LOOKS)]
        finally:
            private_postgres.thaw()

        assert world.wait_ended([run], 40) == {"completed": 1}
        assert max(took_s) < ANSWERED_S + EACH_S, took_s
        assert sorted(took_s)[LOOKS // 2] < ANSWERED_S, took_s
        check(world, [run])


def _answer_s(app: Any, name: str) -> float:
    """Seconds until the worker's main process answers a ping; half a second of rest first."""
    rest_s = time.monotonic() + EACH_S
    wait_until(lambda: time.monotonic() >= rest_s)
    begun_s = time.monotonic()
    assert app.control.ping(destination=[name], timeout=10.0, limit=1) == [{name: {"ok": "pong"}}]
    return time.monotonic() - begun_s
