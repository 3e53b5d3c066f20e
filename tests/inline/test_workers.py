"""Inline steps on real workers: each is a Celery task of its own, wherever the pool executes it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from celery_saga import RunCancelled, RunFailed
from celery_saga.core.status import RunStatus
from tests.inline.onlooker import Onlooker
from tests.runtime.places import Place, place_with
from tests.workers import wait_until

pytestmark = pytest.mark.servers
MODULE = "tests.inline.shop"


@pytest.fixture(params=["redis", "rabbitmq"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_with(request.param, tmp_path, module=MODULE) as found:
        yield found


@pytest.fixture
def on_redis(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path, module=MODULE) as found:
        yield found


@pytest.mark.parametrize(
    ("pool", "driver"),
    [("prefork", "psycopg2"), ("threads", "psycopg2"), ("solo", "psycopg2"), ("gevent", "psycopg")],
)
def test_each_step_is_a_task_with_a_request_of_its_own(pool: str, driver: str, tmp_path: Path) -> None:
    with place_with("redis", tmp_path, driver=driver, module=MODULE) as place, place.worker(pool=pool) as worker:
        run = place.shop.looks.start()
        first, second = run.wait(15)

        steps = run.steps()
        assert [first["id"], second["id"]] != [None, None]
        assert first["id"] != second["id"]
        assert first["pid"] == second["pid"]
        for seen, step, word in ((first, steps[0], "a"), (second, steps[1], "b")):
            assert (seen["step"], seen["args"], seen["hostname"]) == (step.key, [word], worker.name)
            assert (seen["root"], seen["parent"], seen["retries"]) == (True, True, 0)
            assert (seen["is_eager"], seen["called_directly"]) == (False, False)
            assert seen["key"] == "celery"
            assert (step.sends, step.attempt) == (0, 1)


def test_hundreds_of_steps_take_a_few_deliveries(place: Place) -> None:
    with place.worker() as worker:
        assert place.shop.count.start(300).wait(30) == 300

    assert worker.text.count("Task inline_shop.one[") == 300
    assert "Task inline_shop.one[" not in "".join(line for line in worker.lines if "received" in line)


def test_hooks_and_the_tasks_own_retries_work_as_ever(on_redis: Place) -> None:
    place = on_redis
    with place.worker():
        assert place.shop.retries.start().wait(15) == 1
        with pytest.raises(RunFailed) as failed:
            place.shop.failing.start(caught=False).wait(15)
        assert place.shop.failing.start(caught=True).wait(15) == "otherwise"

    assert isinstance(failed.value.cause, place.shop.OutOfStock)
    fails = ["hook prerun fails ", "hook failure fails ", "hook postrun fails FAILURE"]
    assert [line if line.startswith("hook") else line.split()[0] for line in place.calls()] == [
        *("hook prerun flaky ", "flaky", "hook retry flaky ", "hook postrun flaky RETRY"),
        *("hook prerun flaky ", "flaky", "hook success flaky ", "hook postrun flaky SUCCESS"),
        *("done", *fails, "undone"),
        *("done", *fails, "otherwise"),
    ]


def test_what_the_tasks_class_does_is_done(on_redis: Place) -> None:
    place = on_redis
    with place.worker():
        assert place.shop.with_hooks.start("x").wait(15) == "X"
        with pytest.raises(RunFailed) as failed:
            place.shop.with_hooks.start("refused").wait(15)
        with pytest.raises(RunFailed, match="raised Ignore"):
            place.shop.ignoring.start().wait(15)

    assert str(failed.value.cause) == "before the start"
    assert place.calls() == [
        *("before_start ['x']", "call ('x',)", "on_success X"),
        *("before_start ['refused']", "on_failure OutOfStock"),
    ]


def test_a_step_may_send_tasks(on_redis: Place) -> None:
    with on_redis.worker():
        assert on_redis.shop.sending.start().wait(15) == "sent"


def test_what_a_pool_must_keep_and_what_goes_elsewhere_is_sent_as_a_message(on_redis: Place) -> None:
    with on_redis.worker(options=("-Q", "celery,elsewhere")):
        run = on_redis.shop.leaves.start()
        run.wait(20)

        sent = {step.key for step in run.steps() if step.sends}
    assert sent == {"limited", "rated", "queued", "timed", "broker"}


def test_a_cancel_is_honoured_at_the_next_step(place: Place) -> None:
    with place.worker():
        run = place.shop.cancelled.start()
        wait_until(lambda: "waits" in place.calls(), what="the second step begins")
        assert run.cancel()["cancelled"]
        place.shop.tell("go on")
        with pytest.raises(RunCancelled):
            run.wait(15)

    assert place.calls() == ["first", "waits", "go on", "goes on ", "waits undone", "first undone"]


def test_a_long_step_learns_of_a_cancel(on_redis: Place) -> None:
    place = on_redis
    with place.worker():
        run = place.shop.patient.start()
        wait_until(lambda: "patient" in place.calls(), what="the step begins")
        run.cancel()
        with pytest.raises(RunCancelled):
            run.wait(15)

    assert place.calls() == ["patient", "learnt of it"]


def test_a_signal_meanwhile_is_kept_for_the_wait_that_comes(place: Place) -> None:
    with place.worker():
        run = place.shop.signalled.start()
        wait_until(lambda: "waits" in place.calls(), what="the first step begins")
        assert run.signal("go", "word") == "kept"
        place.shop.tell("go on")
        assert run.wait(15) == "last"

        assert place.calls() == ["waits", "go on", "goes on ", "second", "word", "last"]
        assert [step.sends for step in run.steps() if step.kind == "step"] == [0, 0, 0, 0]


def test_whatever_moves_the_run_meanwhile_each_step_is_executed_once(on_redis: Place) -> None:
    place = on_redis
    with place.worker(concurrency=3):
        run = place.shop.slow_count.start(20)
        for number in range(15):
            seen = len(place.calls())
            run.signal("noise", number)
            if number % 5 == 4:
                run.suspend(reason="look")
                run.resume(reason="go on")
            wait_until(lambda seen=seen: len(place.calls()) > seen, what="one more step")  # type: ignore[misc]
        assert run.wait(30) == 20

        assert len(place.calls()) == 20
        assert {(step.attempt, step.stalls) for step in run.steps()} == {(1, 0)}


def test_a_step_that_kills_its_process_is_executed_again_as_a_message(on_redis: Place) -> None:
    with on_redis.worker():
        run = on_redis.shop.dying.start()
        assert run.wait(30) == ["before", "survived", "after"]

        assert [(step.attempt, step.stalls) for step in run.steps()] == [(1, 0), (2, 1), (1, 0)]
    assert on_redis.calls() == ["before", "dies 1", "dies 2", "after"]


def test_the_loss_of_its_process_is_known_before_the_lease_ends(tmp_path: Path) -> None:
    with place_with("redis", tmp_path, module=MODULE, saga_lease=60.0) as place, place.worker():
        run = place.shop.dying.start()
        assert run.wait(20) == ["before", "survived", "after"]

        assert [(step.attempt, step.stalls, step.failures) for step in run.steps()] == [(1, 0, 0), (2, 1, 0), (1, 0, 0)]


def test_a_step_longer_than_its_lease_starts_once(on_redis: Place) -> None:
    with on_redis.worker():
        run = on_redis.shop.lasting.start(5.0)
        run.wait(20)

        assert on_redis.calls() == ["lasts", "lasted"]
        assert [(step.attempt, step.stalls) for step in run.steps()] == [(1, 0)]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_warm_shutdown_comes_between_two_steps(pool: str, tmp_path: Path) -> None:
    with place_with("redis", tmp_path, module=MODULE, saga_inline_slice=600.0) as place:
        with place.worker(pool=pool) as worker:
            run = place.shop.slow_count.start(30)
            wait_until(lambda: len(place.calls()) > 3, what="under way")
            os.kill(worker.pid, signal.SIGTERM)
            worker.stop()
        halted = len(place.calls())
        status = run.refresh().status
        with place.worker(pool=pool):
            assert run.wait(30) == 30

            assert status in {RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.WAITING}
            assert halted < 30
            assert len(place.calls()) == 30
            assert {(step.attempt, step.stalls) for step in run.steps()} == {(1, 0)}


def test_the_deliverys_soft_time_limit_hits_steps_and_never_the_body(tmp_path: Path) -> None:
    limits = {"task_soft_time_limit": 2, "saga_inline_slice": 60.0}
    with place_with("redis", tmp_path, module=MODULE, **limits) as place, place.worker():
        run = place.shop.slow_count.start(40)
        assert run.wait(30) == 40
        cut = place.shop.overlong.start()
        assert cut.wait(15) == "cut"

        assert {(step.attempt, step.failures, step.stalls) for step in run.steps()} == {(1, 0, 0)}
        assert len(place.calls()) == 40


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_flower_sees_each_step_under_the_right_worker(pool: str, tmp_path: Path) -> None:
    with (
        place_with("redis", tmp_path, module=MODULE) as place,
        Onlooker(place.shop.app) as onlooker,
        place.worker(pool=pool, options=("-E",)) as worker,
    ):
        run = place.shop.failing.start(caught=True)
        run.wait(15)
        ends = {"task-succeeded", "task-failed"}
        onlooker.wait(lambda o: sum(x["type"] in ends and _is_step(x, o) for x in o.events) == 3, "three ends")

        done, otherwise = onlooker.named("inline_shop.note")
        (failed,) = onlooker.named("inline_shop.fails")
    assert [x.state for x in (done, failed, otherwise)] == ["SUCCESS", "FAILURE", "SUCCESS"]
    assert {x.worker.hostname for x in (done, failed, otherwise)} == {worker.name}
    assert {x.hostname for x in onlooker.state.workers.values()} == {worker.name}
    assert {(x.root_id, x.parent_id) for x in (done, failed, otherwise)} == {(run.id, run.id)}
    assert onlooker.of(done.uuid) == ["task-received", "task-started", "task-succeeded"]
    assert run.id in done.kwargs
    assert "OutOfStock" in failed.exception
    assert "fails" in failed.traceback


def test_events_follow_what_is_switched_on_and_off_at_run_time(on_redis: Place) -> None:
    place = on_redis
    worker = place.worker()
    worker._words.remove("--without-heartbeat")  # without any events its dispatcher cannot be switched on
    with Onlooker(place.shop.app) as onlooker, worker:
        place.shop.looks.start().wait(15)
        place.shop.app.control.enable_events(destination=[worker.name], reply=True, timeout=5)
        place.shop.failing.start(caught=True).wait(15)
        onlooker.wait(lambda o: len(o.named("inline_shop.note")) == 2, "two notes")

        assert onlooker.named("inline_shop.where") == []


def _is_step(event: dict[str, Any], onlooker: Onlooker) -> bool:
    task = onlooker.state.tasks.get(event.get("uuid"))
    return task is not None and str(task.name).startswith("inline_shop.")
