"""A result backend that nobody can reach, read or log in to, while Celery is told to write every state into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from celery_saga.testing.servers.process import free_port
from tests.faults.points import Fault
from tests.faults.sagas import s3
from tests.faults.world import check, world_with
from tests.servers import PrivateRedis, fresh_mariadb_database

RUNS = 10
BLOCKED_S = 1.0
REFUSED = [Fault("undone", "c", "before_effect", "raise", None)]


@contextmanager
def _closed_port() -> Iterator[str]:
    yield f"redis://127.0.0.1:{free_port()}/0"


@contextmanager
def _frozen_redis() -> Iterator[str]:
    with PrivateRedis() as server:
        server.freeze()
        yield server.url


@contextmanager
def _wrong_password() -> Iterator[str]:
    with fresh_mariadb_database() as url:
        yield "db+" + make_url(url).set(password="wrong").render_as_string(hide_password=False)


@pytest.mark.parametrize("backend", [_closed_port, _frozen_redis, _wrong_password])
def test_b18_no_step_waits_for_a_result_backend_that_is_out_of_order(
    backend: Callable[[], AbstractContextManager[str]], tmp_path: Path
) -> None:
    # Else Celery's own worker does not even start over a database that refuses it.
    settings: dict[str, Any] = {"task_track_started": True, "database_create_tables_at_setup": False}

    with backend() as url, world_with("redis", tmp_path, result_backend=url, **settings) as world:
        begun_s = time.monotonic()
        runs = [s3.start(f"o{n}") for n in range(RUNS)]
        started_s = time.monotonic() - begun_s
        undone = s3.start("undone")

        with world.worker(REFUSED, concurrency=1):
            statuses = world.wait_ended([*runs, undone], 30)

            assert statuses == {"completed": RUNS, "failed": 1}
            assert [effect.key for effect in world.effects(undone)] == ["a", "b", "b!undo", "a!undo"]
            assert started_s < RUNS * BLOCKED_S
            # One slot, and always something to do: whatever holds it up is a gap between two effects.
            times = [effect.ts for effect in world.effects()]
            gaps_s = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
            assert len(gaps_s) == 3 * RUNS + 4 - 1
            assert max(gaps_s) < BLOCKED_S
            check(world, [*runs, undone])
