"""What a step may say in `RateLimited`, and what is made of what it may not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_saga import DefinitionError, RateLimited, RunFailed
from celery_saga.engine import lanes
from tests.lanes.yard import Yard
from tests.scenarios.house import House

WRONG: list[Any] = [None, "30", float("nan"), float("inf"), -5, -0.1, timedelta(seconds=-1), True, b"3", []]


@pytest.mark.parametrize("seconds", WRONG, ids=repr)
def test_what_is_no_span_is_refused_where_it_is_made(seconds: Any) -> None:
    with pytest.raises(DefinitionError, match=r"RateLimited\(seconds\).*timedelta.*got"):
        RateLimited(seconds)


def test_a_span_that_is_none_fails_the_step_by_name(house: House, yard: Yard) -> None:
    @house.task("yard.says_none")
    def says_none() -> None:
        raise RateLimited(None)  # type: ignore[arg-type]

    run = yard.saga(lambda run: run.step(says_none.si()), name="says_none").start()
    house.drain()

    with pytest.raises(RunFailed) as failed:
        run.refresh().wait(0)
    assert "RateLimited(seconds)" in str(failed.value.cause)
    assert (run.steps()[0].failures, run.steps()[0].stalls) == (1, 0)


@pytest.mark.parametrize("seconds", [-1, None, float("inf")], ids=repr)
def test_a_span_that_was_spoilt_later_is_a_failure_too(house: House, yard: Yard, seconds: Any) -> None:
    spoilt = RateLimited(3)
    spoilt.seconds = seconds
    yard.fail["a"] = [spoilt]
    run = yard.saga().start("a")
    house.drain()

    assert "RateLimited(seconds)" in str(run.refresh().error)
    assert (run.status, run.steps()[0].failures) == ("failed", 1)


def test_a_timedelta_is_a_span(house: House, yard: Yard) -> None:
    yard.fail["a"] = [RateLimited(timedelta(minutes=1))]
    run = yard.saga(lane="api").start("a")
    house.drain()
    house.advance(59)
    assert yard.done == []

    house.advance(2)

    assert (yard.done, run.steps()[0].attempt, run.steps()[0].failures) == (["a"], 1, 0)


@pytest.mark.parametrize("lane", [None, "api"])
@pytest.mark.parametrize("seconds", [1e12, 1e20, 10**400, timedelta.max], ids=["1e12", "1e20", "10**400", "max"])
def test_a_span_beyond_the_calendar_waits_and_counts_nothing(
    house: House, yard: Yard, seconds: Any, lane: str | None
) -> None:
    yard.fail["a"] = [RateLimited(seconds)]
    run = yard.saga(lane=lane).start("a")
    house.drain()

    [step] = run.steps()
    assert (step.status, step.attempt, step.failures, step.stalls) == ("scheduled", 0, 0, 0)
    due = step.due_at if lane is None else yard.lane("lane:api").lane.limited_until
    assert due is not None and due > datetime(9999, 1, 1, tzinfo=UTC)
    assert run.cancel()["cancelled"] is True


@pytest.mark.parametrize("lane", [None, "api"])
def test_no_time_at_all_is_waited_for_all_the_same(house: House, yard: Yard, lane: str | None) -> None:
    """A step that says so for ever must not keep everybody busy."""
    yard.fail["a"] = [RateLimited(0), RateLimited(0)]
    run = yard.saga(lane=lane).start("a")
    house.drain()
    assert (yard.done, len(yard.fail["a"])) == ([], 1)

    house.advance(1)
    house.advance(1)

    assert (yard.done, run.steps()[0].attempt) == (["a"], 1)


def test_an_operator_takes_back_a_limit_that_was_meant_in_milliseconds(house: House, yard: Yard) -> None:
    yard.fail["a"] = [RateLimited(1e15)]
    made = yard.saga(lane="api")
    made.start("a")
    house.drain()
    others = [made.start(name) for name in "bc"]
    house.drain()
    assert yard.done == []

    assert lanes.unpause(yard.world, "lane:api") is True
    house.drain()

    assert (yard.done, [run.refresh().status for run in others]) == (["b", "c"], ["completed"] * 2)
    assert lanes.unpause(yard.world, "lane:api") is False
