"""Thousands of timers that come due within seconds, while half of the sweepers stand still and the broker restarts."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.faults.many import fall_due, multiply
from tests.faults.sagas import patient
from tests.faults.world import check, check_logs, check_quiet, check_tokens, world_with
from tests.servers import PrivateRedis
from tests.workers import Worker, wait_until, workers

WITHIN_S, STOPPED_S = 10.0, 20.0
FIRST, LATE_S, STOPPED = 200, 15.0, 2
_LATE = "SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY ended_at - due_at) FROM saga_step WHERE kind = 'timer'"


@pytest.mark.heavy
@pytest.mark.parametrize("count", [1_000, 5_000])
@pytest.mark.timeout(1500)
def test_b15_timers_of_a_storm_fire_once_while_sweepers_stop_and_the_broker_restarts(
    count: int, private_redis: PrivateRedis, tmp_path: Path
) -> None:
    broker = {"broker_url": private_redis.url}
    with world_with("redis", tmp_path, broker_settings=broker) as world:
        fleet = [world.worker(concurrency=1) for _ in range(4)]
        with workers(*fleet):
            run = patient.start("o0", 3600.0)
            world.wait_sql("SELECT count(*) FROM saga_step WHERE kind = 'timer' AND status = 'waiting'", 1)
            multiply(world, run, count)
            completed = "SELECT count(*) >= %s FROM saga_run WHERE status = 'completed'"
            begun_s = time.monotonic()
            fall_due(world, 0.0, *(f"o{number}" for number in range(1, FIRST + 1)))
            world.wait_sql(completed, True, FIRST, timeout_s=120)
            all_take_s = (time.monotonic() - begun_s) * count / FIRST  # on this machine, as busy as it is

            fall_due(world, WITHIN_S)
            world.wait_sql(completed, True, FIRST + count // 20, timeout_s=120)

            _each(fleet[:STOPPED], "suspend")
            world.wait_sql("SELECT clock_timestamp() > now() FROM pg_sleep(%s)", True, STOPPED_S / 2, timeout_s=60)
            private_redis.kill()
            private_redis.start()
            world.wait_sql("SELECT clock_timestamp() > now() FROM pg_sleep(%s)", True, STOPPED_S / 2, timeout_s=60)
            _each(fleet[:STOPPED], "resume")
            world.wait_sql(completed, True, count + 1, timeout_s=300 + 3 * all_take_s)

            wait_until(lambda: world.depth() == 0, what="an empty broker")
            ids = [run_id for (run_id,) in world.sql("SELECT id FROM saga_run")]
            runs = [patient.get(run_id) for run_id in ids]
            times = Counter(each.run for each in world.effects(key="b"))
            assert times.keys() == set(ids)
            # A stopped child may have been in the middle of a step, which was then done by another one.
            assert sum(times.values()) <= len(ids) + STOPPED
            ((late,),) = world.sql(_LATE)
            print(f"p99 {late} late, where all take {all_take_s:.0f} s")
            assert late.total_seconds() < LATE_S + STOPPED_S + 2 * all_take_s
            check_tokens(world, runs)
            check_quiet(world)
            check_logs(world.started)
            check(world, [run for run in runs if times[run.id] == 1][:20])


def _each(several: list[Worker], verb: str) -> None:
    for worker in several:
        family = psutil.Process(worker.pid)
        for process in (family, *family.children(recursive=True)):
            getattr(process, verb)()
