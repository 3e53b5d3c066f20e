"""Processes that die, hang or answer nonsense in the middle of a step."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_saga import RunFailed, SagaError, StepTimeout
from tests.runtime.places import Place, place_with
from tests.workers import wait_until

pytestmark = pytest.mark.servers


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path) as found:
        yield found


def test_a_killed_child_is_noticed_at_once_and_the_step_is_done_again_under_its_key(place: Place) -> None:
    with place.worker(concurrency=1):
        run = place.shop.trouble.start("dies")
        assert run.wait(20) == "survived"
        (step,) = [each for each in run.steps() if each.key == "dies"]
        lost = next(row for row in run.history() if row.action == "lost")

    key = f"{run.id}:1:dies"
    assert place.calls() == [f"dies 1 {key}", f"dies 2 {key}"]
    # Sooner than the lease of 2 s could have ended; Celery itself takes seconds to start another child.
    assert (lost.at - step.created_at).total_seconds() < 1.9
    assert (step.attempt, step.stalls, step.failures) == (2, 1, 0)


def test_a_killed_worker_loses_its_lease_and_another_one_goes_on(place: Place) -> None:
    first = place.worker().start()
    try:
        run = place.shop.trouble.start("slow")
        wait_until(lambda: len(place.calls()) == 1, what="the step began")
    finally:
        first.kill()
    with place.worker():
        assert run.wait(20) == "waited"

    assert place.calls()[0].startswith("slow 1 ")
    assert place.calls()[-1].startswith("slow ends 2")


def test_a_step_longer_than_the_lease_starts_once(place: Place) -> None:
    with place.worker():
        run = place.shop.trouble.start("slow")
        assert run.wait(20) == "waited"

    assert [line.split()[0:3:1] for line in place.calls()][-1][:2] == ["slow", "ends"]
    assert len(place.calls()) == 2
    (step,) = [each for each in run.steps() if each.key == "slow"]
    assert (step.attempt, step.stalls) == (1, 0)


def test_a_stopped_child_loses_its_lease_and_what_it_says_later_does_not_count(place: Place) -> None:
    with place.worker(concurrency=2):
        run = place.shop.trouble.start("slow")
        wait_until(lambda: len(place.calls()) == 1, what="the step began")
        pid = int(place.calls()[0].split()[2])
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: len(place.calls()) == 2, what="the second attempt began")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert run.wait(20) == "waited"

    (step,) = [each for each in run.steps() if each.key == "slow"]
    assert (step.attempt, step.stalls) == (2, 1)
    assert [row.action for row in run.history()] == ["lost", "ok", "end"]


def test_a_cancel_is_seen_by_the_running_step_and_its_effect_is_undone(place: Place) -> None:
    with place.worker():
        run = place.shop.trouble.start("slow")
        wait_until(lambda: len(place.calls()) == 1, what="the step began")
        assert run.cancel()["cancelled"] is True
        wait_until(lambda: run.refresh().status == "cancelled", what="cancelled")

    assert [line.rpartition(" ")[0] if "pid" in line else line for line in place.calls()][1:] == [
        "slow ends 1 cancelled",
        "undo slow",
    ]


def test_a_hard_time_limit_is_a_failure_that_may_have_had_an_effect(place: Place) -> None:
    with place.worker(concurrency=1):
        run = place.shop.trouble.start("hangs")
        with pytest.raises(RunFailed) as failed:
            run.wait(30)

    assert place.calls() == ["hangs 1", "hangs 2", "undo hangs"]
    assert "1 s" in str(failed.value.cause)
    (step,) = [each for each in run.steps() if each.key == "hangs"]
    assert (step.failures, step.stalls, step.maybe) == (2, 0, True)


def test_a_soft_time_limit_that_the_task_handles_is_no_failure(place: Place) -> None:
    with place.worker():
        assert place.shop.trouble.start("soft").wait(15) == "cut"


def test_ignore_in_a_step_is_a_failure_that_says_so(place: Place) -> None:
    with place.worker():
        run = place.shop.trouble.start("ignores")
        with pytest.raises(RunFailed) as failed:
            run.wait(15)

    assert isinstance(failed.value.cause, SagaError)
    assert "Ignore" in str(failed.value.cause)


def test_a_child_that_exits_is_a_stall(place: Place) -> None:
    with place.worker(concurrency=1):
        run = place.shop.trouble.start("exits")
        assert run.wait(20) == "came back"

    (step,) = [each for each in run.steps() if each.key == "exits"]
    assert (step.stalls, step.failures) == (1, 0)


def test_a_result_that_cannot_be_stored_fails_the_step_once_and_is_undone(place: Place) -> None:
    with place.worker():
        run = place.shop.trouble.start("returns_junk")
        with pytest.raises(RunFailed) as failed:
            run.wait(15)

    assert "result of step 'returns_junk'" in str(failed.value.cause)
    assert place.calls() == ["undo returns_junk"]


def test_a_warm_shutdown_in_a_step_is_no_stall(place: Place) -> None:
    first = place.worker().start()
    run = place.shop.trouble.start("slow")
    wait_until(lambda: len(place.calls()) == 1, what="the step began")
    first.stop()
    with place.worker():
        assert run.wait(15) == "waited"

    (step,) = [each for each in run.steps() if each.key == "slow"]
    assert (step.attempt, step.stalls) == (1, 0)


def test_a_step_over_its_time_out_fails_and_is_undone_whatever_it_says_later(place: Place) -> None:
    with place.worker():
        run = place.shop.trouble.start("late")
        with pytest.raises(RunFailed) as failed:
            run.wait(20)
        wait_until(lambda: "slow ends 1 " in place.calls(), what="the task itself ended")

        assert isinstance(failed.value.cause, StepTimeout)
        assert place.calls()[1:] == ["undo late", "slow ends 1 "]
        assert run.refresh().status == "failed"


def test_the_loser_of_a_race_is_told_to_stop_and_what_it_did_is_undone(place: Place) -> None:
    with place.worker():
        run = place.shop.raced_slowly.start()
        wait_until(lambda: len(place.calls()) == 1, what="the step began")
        run.signal("go_on")

        assert run.wait(20) == "go"

    assert [line.rpartition(" ")[0] if "pid" in line else line for line in place.calls()][1:] == [
        "slow ends 1 cancelled",
        "undo told waited",
    ]
