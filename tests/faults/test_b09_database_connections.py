"""Connections to the database that are cut under the plug-in, and a database that is away for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.faults.asking import libpq
from tests.faults.crowd import WITH_PHASES
from tests.faults.phases import counting, plain
from tests.faults.points import Fault
from tests.faults.sagas import ten
from tests.faults.world import World, check, world_with
from tests.servers import PrivatePostgres
from tests.workers import wait_until

CHILDREN, STEPS_EACH = 4, 20
OURS = "saga under test"
LONG = [Fault("long", "a", "before_effect", "hold")]  # a step that runs all the while
CUTS = 10  # or so, spread over the steps; and whenever none has been done for a while
CUT_AFTER_S = 1.0
_DONE = "SELECT count(*) FROM saga_step WHERE status = 'done'"
_CUT = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("counted", "tens", "down_s"), [(15, 10, 4.0), (90, 20, 7.0)], ids=["400 steps", "2000 steps"])
def test_b09_cut_connections_and_a_restart_of_the_database_lose_no_run_and_no_claim(
    counted: int, tens: int, down_s: float, tmp_path: Path
) -> None:
    all_steps = counted * STEPS_EACH + 10 * tens
    engine = {"connect_args": {"application_name": OURS}}

    with PrivatePostgres(ssl=True) as postgres:
        settings: dict[str, Any] = {"database_url": postgres.url, "saga_engine_options": engine}
        with (
            world_with("redis", tmp_path, **settings) as world,
            world.worker(LONG, modules=WITH_PHASES, concurrency=CHILDREN) as worker,
        ):
            family = {worker.pid, *worker.children()}
            long = plain.start("long")
            world.wait_sql("SELECT status FROM saga_step WHERE run_id = %s", "running", long.id)
            runs = [counting.start(f"o{n}", STEPS_EACH) for n in range(counted)]
            effects = [ten.start(f"t{n}") for n in range(tens)]
            assert world.sql("SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
                             "WHERE application_name = %s", OURS) == [(True,)]  # fmt: skip
            with _cutting(world, all_steps // CUTS) as cut:
                wait_until(lambda: _done(world) >= all_steps // 4, 60, "a quarter of the steps")
            postgres.stop()
            stopped_s = time.monotonic()
            wait_until(lambda: time.monotonic() - stopped_s >= down_s, what="the end of the outage")
            postgres.start()
            done_before = _done(world)
            long_lease = "SELECT lease_until > now() AND attempt = 1 FROM saga_step WHERE run_id = %s AND key = 'a'"
            world.wait_sql(long_lease, True, long.id)
            world.release("long", "a")
            with _cutting(world, all_steps // CUTS) as cut_later:
                statuses = world.wait_ended([*runs, *effects, long], 120)

            assert statuses == {"completed": counted + tens + 1}
            assert done_before < all_steps
            assert sum(cut) > CHILDREN and sum(cut_later) > CHILDREN
            steps = world.steps(*runs, *effects, long)
            assert len(steps) == all_steps + 2
            # A checkpoint that did not get through is repeated, and the attempt with it stays the same one.
            assert {(step.attempt, step.stalls, step.failures) for step in steps} == {(1, 0, 0)}
            assert {worker.pid, *worker.children()} == family
            assert "bad record mac" not in worker.text.lower()
            assert len(world.effects(*effects)) == 10 * tens
            check(world, [*runs, *effects, long])


def _done(world: World) -> int:
    ((count,),) = world.sql(_DONE)
    return int(count)


@contextmanager
def _cutting(world: World, steps: int) -> Iterator[list[int]]:
    """After each so many steps, all connections of the plug-in are ended by the server; how many each time."""
    cut: list[int] = []
    over = threading.Event()
    url = libpq(world.settings["saga_database_url"])

    def go_on() -> None:
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            at, since_s = _done(world) + steps // 2, time.monotonic()
            while not over.wait(0.02):
                cursor.execute(_DONE)
                done = cursor.fetchone()[0]
                if done >= at or time.monotonic() - since_s > CUT_AFTER_S:
                    cursor.execute(_CUT, (OURS,))
                    cut.extend(row[0] for row in cursor.fetchall())
                    at, since_s = done + steps, time.monotonic()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield cut
    finally:
        over.set()
        thread.join(20)
