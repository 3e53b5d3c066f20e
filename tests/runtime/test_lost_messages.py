"""Messages that are late, repeated, revoked or gone, and sweepers that are not in the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_saga.engine.ports import RunMessage, StepMessage
from celery_saga.runtime.messages import task_id_of
from tests.runtime.places import Place, place_with
from tests.workers import ROOT, wait_until

pytestmark = pytest.mark.servers

SWEEP = "import tests.runtime.shop as shop; from celery_saga.runtime.app import run_sweeper; run_sweeper(shop.app)"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path) as found:
        yield found


def first_step(place: Place, run_id: str) -> StepMessage:
    loaded = place.shop.app.saga.store.load(run_id)
    (step,) = [each for each in loaded.snapshot.steps.values() if each.ordinal == 0]
    return StepMessage(loaded.snapshot.run, step)


def test_copies_of_every_message_change_nothing(place: Place) -> None:
    publisher = place.shop.app.saga.services.publisher
    with place.worker(concurrency=4):
        run = place.shop.approval.start()
        wait_until(lambda: run.refresh().status == "waiting", what="waiting")
        message = first_step(place, run.id)
        assert publisher.publish([message] * 10 + [RunMessage(message.run)] * 10) == 20
        run.signal("go", "x")
        assert run.wait(15) == "x"

    assert place.calls() == ["reserve a", "dispatch x"]


def test_without_a_broker_a_start_returns_and_the_sweeper_sends_later(tmp_path: Path) -> None:
    from tests.servers import PrivateRedis

    with PrivateRedis() as redis:
        settings = {"broker_url": redis.url, "saga_publish_timeout": 0.5}
        with place_with("redis", tmp_path, **settings) as place:
            redis.kill()
            run = place.shop.checkout.start("o1", 500)
            status = run.status
            redis.start()
            with place.worker():
                assert run.wait(15) == "ch-500"

    assert status == "queued"


def test_an_emptied_broker_loses_no_run(place: Place) -> None:
    run = place.shop.checkout.start("o1", 500)
    _purge(place)
    with place.worker():
        assert run.wait(15) == "ch-500"


def test_a_sweeper_of_its_own_serves_workers_without_one(place: Place) -> None:
    run = place.shop.checkout.start("o1", 500)
    _purge(place)
    sweeper = subprocess.Popen([sys.executable, "-c", SWEEP], cwd=ROOT, env={**os.environ, **place.environment})
    try:
        with place.worker(options=("--no-saga-sweeper",)):
            assert run.wait(20) == "ch-500"
            names = {each["pid"] for each in place.shop.app.saga.store.sweepers()}
    finally:
        sweeper.send_signal(signal.SIGTERM)
        assert sweeper.wait(20) == 0

    assert names == {sweeper.pid}


def test_a_revoked_step_gets_another_id_and_goes_on(place: Place) -> None:
    with place.worker(concurrency=1):
        run = place.shop.trouble.start("slow")
        wait_until(lambda: len(place.calls()) == 1, what="the step began")
        first = first_step(place, run.id)
        old = task_id_of(first.step)
        place.shop.app.control.revoke(old, terminate=True, signal="SIGKILL")
        assert run.wait(30) == "waited"

    step = first_step(place, run.id).step
    assert task_id_of(step) != old
    assert (step.attempt, step.stalls) == (2, 1)


def test_late_acknowledgement_and_requeueing_of_lost_children_do_not_start_a_step_twice(tmp_path: Path) -> None:
    late = {"task_acks_late": True, "task_reject_on_worker_lost": True, "worker_prefetch_multiplier": 1}
    with place_with("rabbitmq", tmp_path, **late) as place, place.worker(concurrency=1):
        run = place.shop.trouble.start("dies")
        assert run.wait(20) == "survived"

    assert [line.split()[1] for line in place.calls()] == ["1", "2"]


def _purge(place: Place) -> None:
    """What a restart of a broker without persistence does to its queues."""
    with place.shop.app.connection_for_write() as connection:
        assert connection.default_channel.queue_purge("celery") >= 1
