"""What SQLite and MariaDB do to writers: locks that are held for long, connections that are closed, long texts."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests.faults.asking import rows
from tests.faults.limits import large
from tests.faults.sagas import ten
from tests.faults.world import MODULES, World, check, world_with
from tests.workers import wait_until

WITH_LIMITS = (*MODULES, "tests.faults.limits")
WRITERS = 8
FOX = "\N{FOX FACE}"  # four bytes of UTF-8
LONG = FOX * 20_000  # more than the 64 kB of a TEXT


@pytest.mark.timeout(300)
@pytest.mark.heavy  # `tests/store/test_processes.py` has one foreign writer in a plain run
def test_b21_on_sqlite_eight_writers_bear_a_foreign_one(tmp_path: Path) -> None:
    count, held_s = 80, 8.0
    settings = {"saga_lease": 30.0}  # longer than the lock: else it would be renewed too late
    with (
        world_with("redis", tmp_path, database="sqlite", **settings) as world,
        world.worker(concurrency=WRITERS),
    ):
        runs = [ten.start(f"o{number}") for number in range(count)]
        wait_until(lambda: len(world.effects()) > count, what="all are on their way")
        with closing(sqlite3.connect(make_url(world.settings["saga_database_url"]).database or "")) as foreign:
            foreign.isolation_level = None
            foreign.execute("BEGIN IMMEDIATE")
            threading.Event().wait(held_s)
            foreign.execute("ROLLBACK")
        assert world.wait_ended(runs, 240) == {"completed": count}

        assert {(step.attempt, step.failures, step.stalls) for step in world.steps(*runs)} == {(1, 0, 0)}
        assert len(world.effects()) == 10 * count
        check(world, runs)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.heavy)])
def test_b21_on_mariadb_short_time_outs_killed_connections_and_long_texts_cost_nothing(
    count: int, tmp_path: Path
) -> None:
    sessions = {"init_command": "SET SESSION wait_timeout = 1, innodb_lock_wait_timeout = 1"}
    settings: dict[str, Any] = {"saga_engine_options": {"connect_args": sessions}}
    with (
        world_with("redis", tmp_path, database="mariadb", **settings) as world,
        world.worker(modules=WITH_LIMITS, concurrency=4),
        _killing(world) as killed,
    ):
        runs = [ten.start(f"o{number}") for number in range(count)]
        long = large.start("long", LONG)
        assert world.wait_ended([*runs, long], 240) == {"completed": count + 1}
        wait_until(lambda: len(killed) >= 2, what="two connections were killed")
        later = ten.start("later")
        assert world.wait_ended([later], 20) == {"completed": 1}

        assert long.wait(1) == LONG
        assert {(step.failures, step.stalls) for step in world.steps(*runs, long, later)} == {(0, 0)}
        check(world, [*runs, long, later])


@contextmanager
def _killing(world: World) -> Iterator[list[int]]:
    """Every second, one connection of the plug-in is ended by the server, whatever it does; their ids."""
    url, over, killed = world.settings["saga_database_url"], threading.Event(), list[int]()
    choice = random.Random(21)
    theirs = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"

    def go_on() -> None:
        while not over.wait(1.0):
            if found := rows(url, theirs, ()):
                (victim,) = choice.choice(found)
                try:
                    rows(url, f"KILL {int(victim)}", ())
                except Exception as error:
                    assert "Unknown thread" in str(error)  # it has ended by itself
                else:
                    killed.append(int(victim))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join(20)
