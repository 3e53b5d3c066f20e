"""One fault on each database, broker and pool: its worker killed in a step, and then every message lost."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.points import Fault
from tests.faults.sagas import s3
from tests.faults.world import check, world_with

CELLS = [
    pytest.param(*cell, id="-".join(cell))
    for cell in product(("postgresql", "mariadb", "sqlite"), ("redis", "rabbitmq"), ("prefork", "threads", "gevent"))
]


@pytest.mark.heavy  # `test_b21_other_databases.py` has the other databases, and other files the other pools
@pytest.mark.parametrize(("database", "broker", "pool"), CELLS)
def test_a_killed_worker_and_lost_messages_lose_no_run(database: str, broker: str, pool: str, tmp_path: Path) -> None:
    plan = [Fault("held", "b", "after_effect", "hold"), Fault("undone", "a!undo", "after_effect", "hold")]
    plan += [Fault(order, "c", "before_effect", "raise", None) for order in ("undone", "refused")]
    driver = "psycopg" if (database, pool) == ("postgresql", "gevent") else database

    with world_with(broker, tmp_path, database=driver) as world:
        with world.worker(plan, pool=pool, concurrency=4) as first:
            runs = {order: s3.start(order) for order in ("held", "undone")}
            world.wait_effect(runs["held"], "b")
            world.wait_effect(runs["undone"], "a!undo")
            first.kill()
        runs |= {order: s3.start(order) for order in ("refused", "easy")}
        assert world.purge() == 2

        with world.worker(plan, pool=pool, concurrency=4):
            assert world.wait_ended(list(runs.values()), 30) == {"completed": 2, "failed": 2}

            assert [each.key for each in world.effects(runs["held"])] == ["a", "b", "b", "c"]
            assert [each.key for each in world.effects(runs["undone"])] == ["a", "b", "b!undo", "a!undo", "a!undo"]
            assert [each.key for each in world.effects(runs["refused"])] == ["a", "b", "b!undo", "a!undo"]
            # What the killed worker held, Redis gives back after an hour.
            check(world, list(runs.values()), drained=lambda: not world.messages())
