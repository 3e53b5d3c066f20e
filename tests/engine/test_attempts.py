"""How attempts end when nobody checks them in, and what is told about it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from celery_saga import Retry, Run, StepTimeout, saga
from celery_saga.core.records import Action
from celery_saga.engine.ports import Limits
from tests.scenarios.house import House


@pytest.fixture
def house() -> Iterator[House]:
    """A house in memory; steps have 40 s unless they say otherwise."""
    with House("sqlite://", limits=Limits(lease_s=30, step_timeout_s=40)) as built:
        yield built


def test_a_step_without_a_time_out_of_its_own_has_that_of_the_settings(house: House) -> None:
    @house.task("timed.slow")
    def slow() -> None: ...

    @saga(name="timed")
    def timed(run: Run) -> None:
        run.step(slow.si())

    house.add(timed)
    handle = timed.start()
    house.claim_next()
    house.advance(45)

    assert [row.action for row in handle.history()] == [Action.TIMEOUT, Action.END]
    assert isinstance(_cause(house, handle.id), str)
    assert _cause(house, handle.id) == StepTimeout.code


def test_a_time_out_shorter_than_the_lease_ends_the_attempt_in_time(house: House) -> None:
    @house.task("timed.slow")
    def slow() -> None: ...

    @saga(name="timed")
    def timed(run: Run) -> None:
        run.step(slow.si(), timeout=2)

    house.add(timed)
    handle = timed.start()
    late = house.claim_next()
    house.advance(2.5)

    assert _cause(house, handle.id) == StepTimeout.code
    assert house.finish(late) is False, "what comes after its time-out does not count"


def test_a_time_out_counts_as_a_failure_and_a_lost_process_does_not(house: House) -> None:
    @house.task("timed.twice")
    def twice() -> str:
        return "done"

    @saga(name="timed")
    def timed(run: Run) -> str:
        return str(run.step(twice.si(), timeout=5, retry=Retry(2, delay=0)))

    house.add(timed)
    handle = timed.start()
    lost = house.claim_next()
    house.engine.end_attempt(handle.id, "twice", lost.step.claim_token)
    house.claim_next()
    house.advance(31)

    step = handle.steps()[0]
    assert (step.attempt, step.stalls, step.failures, step.status) == (3, 1, 1, "done")
    assert handle.wait(1) == "done"


def test_a_parked_run_is_told_once_as_an_error(house: House, caplog: pytest.LogCaptureFixture) -> None:
    @saga(name="buggy")
    def buggy(run: Run) -> None:
        raise KeyError("oops")

    house.add(buggy)
    with caplog.at_level(logging.INFO, logger="celery_saga"):
        handle = buggy.start()
        house.drain()
        house.advance(3600)

    told = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(told) == 1
    assert handle.id in told[0].getMessage()
    assert "oops" in told[0].getMessage()


def _cause(house: House, run_id: str) -> str | None:
    error = house.engine.run_of(run_id).error
    return None if error is None else error.code


def test_a_run_of_a_saga_that_nobody_knows_is_told_once_however_often_it_comes_back(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    @saga(name="known-elsewhere")
    def elsewhere(run: Run) -> None: ...

    with caplog.at_level(logging.WARNING, logger="celery_saga"):
        first, second = elsewhere.start(), elsewhere.start()
        house.drain()
        house.advance(3)

    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "known-elsewhere" in told[0]
    assert {first.status, second.status} == {"queued"}
