"""Delays bind no worker: back-offs move to whoever is free, hold up nothing, and each timer fires once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.world import world_with
from tests.lanes.served import backs_off, free, sleeps
from tests.workers import workers

MODULES = ("tests.lanes.served",)
QUICK_S = 0.2


def test_r043_back_offs_move_to_a_worker_that_came_later(tmp_path: Path) -> None:
    settings = {"saga_sweep_interval": QUICK_S}
    with world_with("redis", tmp_path, **settings) as world, world.worker(modules=MODULES, concurrency=1) as first:
        runs = [backs_off.start(f"r{number}", 6.0) for number in range(20)]
        world.wait_sql("SELECT count(*) FROM saga_step WHERE failures = 1", 20)
        with world.worker(modules=MODULES, concurrency=1) as second:
            assert world.wait_ended(runs, 40) == {"completed": 20}
            pids = {each.pid for each in world.effects(*runs) if each.attempt == 2}
            assert pids & set(first.children())
            assert pids & set(second.children())


@pytest.mark.parametrize("count", [100, 500])
def test_r044_runs_in_back_off_keep_no_worker_from_new_work(count: int, tmp_path: Path) -> None:
    with world_with("redis", tmp_path, saga_sweep_interval=QUICK_S) as world:
        runs = [backs_off.start(f"r{number}", 600.0) for number in range(count)]
        with world.worker(modules=MODULES, concurrency=1):
            world.wait_sql("SELECT count(*) FROM saga_step WHERE failures = 1", count, timeout_s=120)
            fresh = free.start("fresh")
            assert world.wait_ended([fresh], 5) == {"completed": 1}
            assert world.depth() == 0
        assert world.statuses(runs) == {"running": count}


@pytest.mark.parametrize("fleet", [2, 5])
def test_r104_of_many_sweepers_one_wakes_each_timer(fleet: int, tmp_path: Path) -> None:
    # A lease as in earnest: what a slow machine leaves lying for longer is sent once more, as it should be.
    with world_with("redis", tmp_path, saga_sweep_interval=1.0, saga_lease=30.0) as world:
        with world.worker(modules=MODULES, concurrency=2):
            runs = [sleeps.start(f"t{number}", 8.0) for number in range(100)]
            world.wait_sql("SELECT count(*) FROM saga_step WHERE kind = 'timer'", 100, timeout_s=60)
        with workers(*(world.worker(modules=MODULES, concurrency=1) for _ in range(fleet))) as several:
            assert world.wait_ended(runs, 90) == {"completed": 100}
            lines = [line for each in several for line in each.text.splitlines()]
            received = sum("celery_saga.coordinate[" in line and "received" in line for line in lines)

        assert received == 100
        assert len([each for each in world.effects(*runs) if each.told == "begin"]) == 100
