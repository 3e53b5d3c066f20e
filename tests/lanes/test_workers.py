"""Lanes over real workers with many slots: never one more than a cap, in order, and whoever is killed is followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from celery_saga import RunHandle
from tests.faults.points import Fault
from tests.faults.world import World, world_with
from tests.lanes.served import asks_api, capped, free, free_too, in_lane
from tests.workers import wait_until, workers

pytestmark = pytest.mark.servers

MODULES = ("tests.lanes.served",)
QUICK_S = 0.2


def _most_at_once(world: World, *runs: RunHandle[Any]) -> int:
    """By the ledger, which says `begin` after a claim and `end` before its checkpoint."""
    now = most = 0
    for each in world.effects(*runs):
        now += 1 if each.told == "begin" else -1
        most = max(most, now)
    return most


def _begun(world: World) -> list[str]:
    keys = dict(world.sql("SELECT id, key FROM saga_run"))
    return [keys[each.run] for each in world.effects() if each.told == "begin"]


def test_a19_one_of_each_lane_is_active_and_they_end_in_the_order_of_their_starts(tmp_path: Path) -> None:
    plan = [Fault("*", "work", "before_effect", "hold")]
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world:
        runs = [in_lane.start(name, name[0].upper()) for name in ("a1", "a2", "a3", "b1")]
        with world.worker(plan, modules=MODULES, concurrency=10):
            running = "SELECT count(*) FROM saga_step WHERE status = 'running'"
            world.wait_sql(running, 2)
            world.wait_sql("SELECT count(*) FROM saga_slot WHERE state = 'used'", 2)
            world.wait_sql("SELECT count(*) FROM saga_slot WHERE state = 'queued' AND wake_at IS NULL", 2)
            assert world.sql(running) == [(2,)]
            for name in ("a1", "b1", "a2", "a3"):
                world.release(name, "work")
            assert world.wait_ended(runs, 30) == {"completed": 4}

        assert [name for name in _begun(world) if name[0] == "a"] == ["a1", "a2", "a3"]
        assert _most_at_once(world, *runs[:3]) == 1


def test_a20_caps_of_all_of_a_saga_and_of_a_lane_stack(tmp_path: Path) -> None:
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S, saga_max_active=3) as world:
        flows = [saga.start(f"{saga.name}{number}") for number in range(3) for saga in (free, free_too)]
        four = [capped.start(f"c{number}") for number in range(4)]
        with world.worker(modules=MODULES, concurrency=10):
            assert world.wait_ended([*flows, *four], 40) == {"completed": 10}

        assert _most_at_once(world) <= 3
        assert _most_at_once(world, *four) == 2


def test_a21_by_priority_and_then_in_order(tmp_path: Path) -> None:
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world:
        wanted = {"p0-a": 0, "p5": 5, "p10": 10, "p0-b": 0}
        runs = [in_lane.options(priority=priority).start(name, "L") for name, priority in wanted.items()]
        with world.worker(modules=MODULES, concurrency=10):
            assert world.wait_ended(runs, 30) == {"completed": 4}

        assert _begun(world) == ["p10", "p5", "p0-a", "p0-b"]


def test_a_worker_killed_between_its_commit_and_the_lane_is_followed_by_a_sweeper(tmp_path: Path) -> None:
    plan = [Fault("a", "work", "after_checkpoint", "kill")]
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world:
        runs = [in_lane.start(name, "L") for name in "ab"]
        with world.worker(plan, modules=MODULES, concurrency=2):
            assert world.wait_ended(runs, 30) == {"completed": 2}
        assert _begun(world) == ["a", "b"]
        world.wait_sql("SELECT count(*) FROM saga_slot", 0)


def test_a_pause_over_workers_stops_what_comes_next_and_no_more(tmp_path: Path) -> None:
    plan = [Fault("f0", "work", "before_effect", "hold")]
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world:
        runs = [free.start("f0")]
        with workers(*(world.worker(plan, modules=MODULES, concurrency=4) for _ in range(2))):
            world.wait_sql("SELECT count(*) FROM saga_step WHERE status = 'running'", 1)
            world.saga.pause(saga="free", by="ann", reason="maintenance")
            runs += [free.start(f"f{number}") for number in range(1, 4)]
            other = free_too.start("other")
            world.release("f0", "work")
            assert world.wait_ended([other], 30) == {"completed": 1}
            world.wait_sql("SELECT count(*) FROM saga_step WHERE status = 'done'", 2)
            world.wait_sql("SELECT count(*) FROM saga_run WHERE admission = 'asked'", 4)
            assert set(_begun(world)) == {"f0", "other"}

            assert world.saga.unpause(saga="free")
            assert world.wait_ended(runs, 30) == {"completed": 4}
        assert world.sql("SELECT count(*) FROM saga_slot") == [(0,)]


def test_rate_limited_in_a_worker_stops_its_lane_and_counts_nothing(tmp_path: Path) -> None:
    plan = [Fault("r1", "limit", "before_effect", "hold", 1)]
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world:
        world.release("r1", "limit")  # the mark alone tells the task that it has found the limit
        first = asks_api.start("r1")
        with world.worker(plan, modules=MODULES, concurrency=4):
            wait_until(lambda: bool(world.sql("SELECT 1 FROM saga_lane WHERE limited_until IS NOT NULL")), 20)
            runs = [first, *(asks_api.start(f"r{number}") for number in range(2, 5))]
            assert world.wait_ended(runs, 30) == {"completed": 4}

        [(until,)] = world.sql("SELECT limited_until FROM saga_lane WHERE name = 'lane:api'")
        [ended] = world.sql("SELECT min(ended_at) FROM saga_step")
        assert ended[0] >= until
        assert [(each.attempt, each.failures, each.stalls) for each in world.steps(first)] == [(1, 0, 0)]
