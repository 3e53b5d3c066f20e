"""RabbitMQ throws a worker out whose task takes longer than it waits for an acknowledgement."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.points import Fault
from tests.faults.sagas import s3
from tests.faults.world import MODULES, World, check, world_with
from tests.servers import PrivateRabbit
from tests.workers import wait_until

TIMEOUT_MS, LONG_S = 4_000, 15.0
SOON = f"""application:set_env(rabbit, consumer_timeout, {TIMEOUT_MS}),
           application:set_env(rabbit, channel_tick_interval, 1000)."""


pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]
MODULES_TOO = (*MODULES, "tests.faults.limits")
HELD = [Fault("long", "b", "before_effect", "hold"), Fault("ordinary", "slow", "before_effect", "hold", None)]
_OLD = """SELECT clock_timestamp() - started_at > make_interval(secs => %s) FROM saga_step
          WHERE key = 'b' AND run_id = %s"""


@pytest.fixture
def world(private_rabbit: PrivateRabbit, tmp_path: Path) -> Iterator[World]:
    private_rabbit.ctl("eval", " ".join(SOON.split()))
    settings = {"broker_settings": {"broker_url": private_rabbit.url}, "task_acks_late": True}
    with world_with("rabbitmq", tmp_path, **settings) as found:
        yield found


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_b04_a_step_that_takes_longer_than_rabbitmq_waits_throws_nobody_out(pool: str, world: World) -> None:
    """Although late acknowledgement is on: a step's message is acknowledged when its lease begins."""
    with _restarted(world, pool):
        long = s3.start("long")
        world.wait_sql(_OLD, True, LONG_S, long.id, timeout_s=120)
        world.release("long", "b")
        assert world.wait_ended([long], 30) == {"completed": 1}

        assert "PRECONDITION_FAILED" not in world.started[0].text
        assert len(world.started) == 1
        assert [each.key for each in world.effects(long)] == ["a", "b", "c"]
        check(world, [long])


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_b04_a_worker_that_is_thrown_out_for_another_task_loses_no_step(pool: str, world: World) -> None:
    with _restarted(world, pool):
        world.app.send_task("faults.slow", ("ordinary",))
        long = s3.start("long")
        world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'b' AND status = 'running'", 1)
        others = [s3.start(f"o{number}") for number in range(10)]  # fetched, and behind the two
        wait_until(lambda: "PRECONDITION_FAILED" in world.started[0].text, 90, "thrown out")
        world.release("long", "b")
        world.release("ordinary", "slow")
        assert world.wait_ended([long, *others], 120) == {"completed": 11}

        assert [each.key for each in world.effects(long)].count("b") <= 2
        assert len(world.effects(*others)) == 30
        check(world, [long, *others])


@contextmanager
def _restarted(world: World, pool: str) -> Iterator[None]:
    """A worker that is started again whenever it has ended, as by a supervisor."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            with world.worker(HELD, modules=MODULES_TOO, pool=pool) as worker:
                while worker.is_running and not over.wait(0.1):
                    pass

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        wait_until(lambda: any(" ready." in worker.text for worker in world.started), 60, "the first worker")
        yield
    finally:
        over.set()
        thread.join(60)
