"""An hour's backlog: wake-ups that are only late are not sent again, those that are lost are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from celery_saga import RunHandle
from tests.faults.sagas import s3
from tests.faults.world import APP, LEASE_S, SWEEP_S, World, check, world_with
from tests.workers import ROOT, wait_until

# An hour at the default lease of 30 s is 7 looks at a late wake-up: after 30 s, 1, 2, 4, 8, 15 and 15 min.
LOOKS = 8
SHORT = {"saga_lease": 0.1, "saga_sweep_interval": 0.05, "saga_queue": "decisions"}


@contextmanager
def _sweeper(world: World) -> Iterator[None]:
    """The sweeper as a process of its own: it sends, and nobody consumes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", APP, "saga", "sweeper"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **world.environment()},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_an_hour_in_a_queue_that_nobody_consumes_sends_no_message_twice(broker: str, tmp_path: Path) -> None:
    with world_with(broker, tmp_path, **SHORT) as world:
        with world.worker(options=("-Q", "decisions", "--no-saga-sweeper")):
            decided = [s3.start(f"decided{number}") for number in range(10)]  # their steps wait in `celery`
            world.wait_sql("SELECT count(*) FROM saga_step WHERE status = 'scheduled'", 10)
            wait_until(lambda: world.depth("decisions") == 0, what="all are decided")
        queued = [s3.start(f"queued{number}") for number in range(10)]  # and these wait in `decisions`

        with _sweeper(world):
            steps, runs = (
                "SELECT min(sends) FROM saga_step",
                "SELECT min(sends) FROM saga_run WHERE key LIKE 'queued%%'",
            )
            world.wait_sql(f"SELECT least(({steps}), ({runs})) >= %s", True, LOOKS, timeout_s=60)

        steps, decisions = world.messages(), world.messages("decisions")
        assert Counter(each["id"] for each in steps) == dict.fromkeys({each["id"] for each in steps}, 1)
        assert {each["celery_saga"]["run"] for each in steps} == {run.id for run in decided}
        assert len(steps) == 10
        assert Counter(each["celery_saga"]["run"] for each in decisions) == {run.id: 1 for run in queued}
        with world.worker(options=("-Q", "celery,decisions")):
            assert world.wait_ended([*decided, *queued], 60) == {"completed": 20}
            assert {each.attempt for each in world.effects()} == {1}
            check(world, [*decided, *queued], drained=lambda: world.depth("celery", "decisions") == 0)


def test_in_a_queue_full_of_other_tasks_wake_ups_wait_their_turn_and_lost_ones_are_sent(tmp_path: Path) -> None:
    with world_with("redis", tmp_path, **{**SHORT, "saga_queue": None}) as world:
        for _ in range(300):
            world.app.send_task("faults.other")
        for number in range(10):
            s3.start(f"o{number}")
        with _sweeper(world):
            world.wait_sql("SELECT min(sends) >= %s FROM saga_run", True, LOOKS, timeout_s=60)
            assert world.depth() == 310
            assert world.purge() == 310  # and now they are lost
            wait_until(lambda: world.depth() >= 1, 60, "a lost wake-up was sent again")


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_wake_up_that_a_busy_queue_has_lost_is_sent_after_a_lease(broker: str, tmp_path: Path) -> None:
    with world_with(broker, tmp_path) as world, world.worker(concurrency=2), _busy(world) as runs:
        wait_until(lambda: world.statuses(runs)["completed"] >= 20, what="a queue that moves")
        assert world.purge() >= 5
        before = list(runs)
        assert world.wait_ended(before, 2 * LEASE_S + SWEEP_S) == {"completed": len(before)}
        assert world.depth() >= 5


@contextmanager
def _busy(world: World) -> Iterator[list[RunHandle[str]]]:
    """There are some dozens of messages in the queue all the while, each of which comes out soon; the runs so far."""
    over, runs = threading.Event(), list[RunHandle[str]]()

    def feed() -> None:
        while not over.wait(0.01):
            while world.depth() < 50:
                runs.append(s3.start(f"o{len(runs)}"))

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        yield runs
    finally:
        over.set()
        feeding.join(20)
