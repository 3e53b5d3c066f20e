"""How many connections a fleet holds, and what it does with few: PgBouncer, forty workers, a hundred greenlets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.faults.asking import open_transactions
from tests.faults.pgbouncer import PrivatePgBouncer
from tests.faults.points import Fault
from tests.faults.sagas import patient, s3, ten
from tests.faults.world import World, check, world_with
from tests.servers import PrivatePostgres, with_driver
from tests.workers import wait_until

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(400)]
OURS = "saga under test"
WORKERS = 40


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
def test_pgbouncer_in_transaction_mode_is_borne(driver: str, private_postgres: PrivatePostgres, tmp_path: Path) -> None:
    size = 3
    plan = [Fault("refused", "c", "before_effect", "raise", None), Fault("dies", "b", "after_effect")]
    with (
        PrivatePgBouncer(private_postgres, size) as bouncer,
        world_with("redis", tmp_path, database_url=with_driver(bouncer.url, driver)) as world,
        world.worker(plan, concurrency=8),
    ):
        runs = [ten.start(f"o{number}") for number in range(30)]
        runs += [s3.start("refused"), s3.start("dies")]
        sleeping, waiting = patient.start("sleeping", 2.0), patient.start("waiting")
        world.wait_sql("SELECT count(*) FROM saga_step WHERE kind = 'signal' AND status = 'waiting'", 1)
        waiting.signal("go", "on")
        assert waiting.wait(30) == "waiting"  # without the notification, which does not come through
        runs += [sleeping, waiting]
        assert world.wait_ended(runs, 90) == {"completed": 33, "failed": 1}

        behind = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND backend_type = 'client backend'"
        assert world.sql(behind)[0][0] <= size + 1
        check(world, runs)


def test_forty_workers_hold_as_many_connections_as_the_page_says(tmp_path: Path) -> None:
    """One for each pool process and each sweeper; one more where a step is long, or a worker checks itself."""
    engine = {"connect_args": {"application_name": OURS}}
    with PrivatePostgres(settings={"max_connections": "200"}) as postgres:
        settings: dict[str, Any] = {"database_url": postgres.url, "saga_engine_options": engine, "saga_lease": 30.0}
        with world_with("redis", tmp_path, **settings) as world:
            fleet = [world.worker(concurrency=1) for _ in range(WORKERS)]
            try:
                with ThreadPoolExecutor(4) as pool:
                    list(pool.map(lambda worker: worker.start(), fleet))
                runs = [ten.start(f"o{number}") for number in range(200)]
                most = 0
                while world.statuses(runs)["completed"] < len(runs):
                    most = max(most, _ours(world))
                    assert [worker for worker in fleet if not worker.is_running] == []
                by = {each.pid for each in world.effects()}
                wait_until(lambda: _ours(world) <= 2 * WORKERS + 1, 30, "two each, and the client's")
                print(f"at most {most} connections, then {_ours(world)}, of {WORKERS} workers; {len(by)} had steps")
                assert most <= 3 * WORKERS + 1
                assert len(by) > WORKERS // 2
                check(world, runs)
            finally:
                for worker in fleet:
                    worker.kill()


def _ours(world: World) -> int:
    ((count,),) = world.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", OURS)
    return int(count)


def test_r125_a_hundred_greenlets_share_a_small_pool(tmp_path: Path) -> None:
    """No step waits as long as the pool's own time-out, and no transaction is left open."""
    settings: dict[str, Any] = {
        "database": "psycopg",
        "saga_engine_options": {"pool_size": 5, "max_overflow": 0, "pool_timeout": 10},
    }
    with world_with("redis", tmp_path, **settings) as world, world.worker(pool="gevent", concurrency=100):
        runs = [ten.start(f"o{number}") for number in range(50)]
        idle = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                  AND starts_with(state, 'idle in transaction') AND clock_timestamp() - state_change > interval '5 s'"""
        while world.statuses(runs)["completed"] < len(runs):
            assert world.sql(idle) == [(0,)]
        assert world.wait_ended(runs, 60) == {"completed": 50}

        assert {(step.attempt, step.failures, step.stalls) for step in world.steps(*runs)} == {(1, 0, 0)}
        assert open_transactions(world.settings["saga_database_url"]) == 0
        check(world, runs)
