"""A broker that is emptied while it runs: redispatched, everything finishes long before a lease is over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from celery_saga import RunHandle
from tests.faults.phases import LATE, plain, queued
from tests.faults.points import Fault
from tests.faults.sagas import patient
from tests.faults.world import MODULES, World, check_tokens, world_with
from tests.servers import PrivateRedis
from tests.workers import wait_until

SHAPES = (*MODULES, "tests.faults.phases")
EACH = 8
LEASE_S = 300.0
"""So long that nothing but the redispatch can have brought it back."""


@contextmanager
def _emptied_redis(directory: Path) -> Iterator[tuple[World, Callable[[], None]]]:
    with PrivateRedis() as server:
        broker = {"broker_url": server.url}
        with world_with("redis", directory, broker_settings=broker, saga_lease=LEASE_S) as world:

            def empty() -> None:
                with closing(redis.Redis.from_url(server.url)) as client:
                    client.flushall()

            yield world, empty


@contextmanager
def _purged_rabbitmq(directory: Path) -> Iterator[tuple[World, Callable[[], None]]]:
    with world_with("rabbitmq", directory, saga_lease=LEASE_S) as world:

        def empty() -> None:
            for queue in ("celery", LATE):
                world.purge(queue)

        yield world, empty


@pytest.mark.servers
@pytest.mark.parametrize("place", [_emptied_redis, _purged_rabbitmq], ids=["redis", "rabbitmq"])
def test_what_a_broker_lost_is_redispatched_and_finishes_at_once(place: Any, tmp_path: Path) -> None:
    plan = [Fault("held", "b", "before_effect", "hold")]
    with place(tmp_path) as (world, empty), world.worker(plan, modules=SHAPES, concurrency=1) as worker:
        held = plain.start("held")
        waits = patient.start("waits")
        world.wait_effect(waits, "a")
        world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'b' AND status = 'running'", 1)
        late = [queued.start(f"late{n}") for n in range(EACH)]
        wait_until(lambda: world.depth(LATE) >= EACH, what="messages to be lost")
        empty()

        with world.worker(modules=SHAPES, concurrency=1, options=("-Q", LATE)):
            began_s = time.monotonic()
            dry = world.saga.redispatch()
            real = world.saga.redispatch(dry_run=False)
            again = world.saga.redispatch(dry_run=False)
            world.release("held", "b")
            statuses = world.wait_ended([held, *late], 60)
            took_s = time.monotonic() - began_s

        assert statuses == {"completed": EACH + 1}
        assert waits.status == "waiting"
        assert {each.run_id for each in dry.wake_ups} == {run.id for run in late}
        assert Counter(each.queue for each in dry.wake_ups) == {LATE: EACH}
        assert real.wake_ups == dry.wake_ups
        assert (again.wake_ups, again.unsent) == ((), 0)
        assert took_s < LEASE_S / 4
        assert _effects(world, late) == {"a": EACH}
        assert _effects(world, [held]) == {"a": 1, "b": 1}
        assert {step.attempt for step in world.steps(held, *late)} == {1}
        check_tokens(world, [held, *late])
        assert "Traceback" not in worker.text


def _effects(world: World, runs: list[RunHandle[Any]]) -> Counter[str]:
    return Counter(effect.key for effect in world.effects(*runs))
