"""`RateLimited` and lanes with inline steps, transactional steps, and in a laboratory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, Lane, RateLimited, Run, current_step, saga, step
from celery_saga.engine import lanes
from celery_saga.testing import Lab
from tests.inline.parlour import Parlour
from tests.lanes.yard import Yard


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A laboratory over an app of its own."""
    app = Celery("lanes", set_as_current=False)
    app.conf.update(saga_database_url="sqlite://")
    CelerySaga(app)
    with Lab(app) as opened:
        yield opened
    app.close()


def _limited(lab: Lab, done: list[str], limits: list[float], *, transactional: bool = False) -> Any:
    @lab.app.task(name="kinds.limited", shared=False)
    def limited(name: str) -> str:
        if transactional:
            current_step.connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS seen (name TEXT)")
            current_step.connection.exec_driver_sql("INSERT INTO seen VALUES ('x')")
        if limits:
            raise RateLimited(limits.pop())
        done.append(name)
        return name

    return limited


def test_a_step_that_finds_a_limit_is_put_back_in_a_laboratory(lab: Lab) -> None:
    done: list[str] = []
    task = _limited(lab, done, [30.0])

    @saga(name="limited_in_lab", lane=Lane("api", cap=3))
    def limited(run: Run, name: str) -> str:
        return run.step(task.si(name))

    first = lab.start(limited, "a")
    lab.drain()
    second = lab.start(limited, "b")
    lab.drain()
    assert done == []
    [put_back] = first.steps()
    assert (put_back.attempt, put_back.failures, put_back.stalls, put_back.maybe) == (0, 0, 0, False)

    lab.advance(31)

    assert sorted(done) == ["a", "b"]
    assert (first.refresh().status, second.refresh().status) == ("completed", "completed")
    assert [each.attempt for each in first.steps()] == [1]


def test_what_a_transactional_step_wrote_before_it_found_a_limit_is_rolled_back(lab: Lab) -> None:
    done: list[str] = []
    task = _limited(lab, done, [30.0], transactional=True)

    @saga(name="limited_transactional")
    def limited(run: Run, name: str) -> str:
        return run.step(step(task.si(name), transactional=True))

    run = lab.start(limited, "a")
    lab.drain()
    assert (done, run.steps()[0].attempt) == ([], 0)
    lab.advance(31)

    assert (done, run.refresh().status) == (["a"], "completed")


def test_the_time_of_a_laboratory_moves_on_to_the_end_of_a_limit(lab: Lab) -> None:
    done: list[str] = []
    task = _limited(lab, done, [])

    @saga(name="windowed", lane=Lane("partner", cap=None, limit=1, window=timedelta(seconds=60)))
    def windowed(run: Run, name: str) -> str:
        return run.step(task.si(name))

    runs = [lab.start(windowed, name) for name in "abc"]
    assert [run.wait(600) for run in runs] == ["a", "b", "c"]


# -- executed by the process that coordinates --------------------------------------------------------------------------
@pytest.fixture
def parlour() -> Iterator[Parlour]:
    """A house that executes steps inline."""
    with Parlour("sqlite://") as built:
        yield built


def _three(run: Run, yard: Yard, name: str) -> None:
    for number in range(3):
        run.step(yard.do.si(f"{name}{number}"), name=f"s{number}")


def test_inline_steps_are_executed_under_one_slot(parlour: Parlour) -> None:
    yard = Yard(parlour)
    three = yard.saga(lambda run, name: _three(run, yard, name), name="three", dispatch="inline", lane="A")
    three.start("a")
    three.start("b")

    parlour.drain()

    assert yard.done == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert parlour.executed == ["s0", "s1", "s2"] * 2
    assert yard.lane("lane:A").used == 0


def test_an_inline_step_that_finds_a_limit_is_put_back_and_its_run_gives_way(parlour: Parlour) -> None:
    yard = Yard(parlour)
    three = yard.saga(lambda run, name: _three(run, yard, name), name="three", dispatch="inline", lane="A")
    yard.fail["a1"] = [RateLimited(30)]
    a = three.start("a")
    parlour.drain()

    assert (yard.done, yard.admission(a.id)) == (["a0"], "out")
    assert [(each.attempt, each.failures) for each in a.steps()] == [(1, 0), (0, 0)]
    parlour.advance(31)

    assert (yard.done, a.refresh().status) == (["a0", "a1", "a2"], "completed")


def test_a_pause_stops_an_inline_delivery_after_the_step_that_runs(parlour: Parlour) -> None:
    yard = Yard(parlour)

    @parlour.task("kinds.pauses")
    def pauses() -> None:
        lanes.pause(yard.world, "saga:paused", by=None, reason="")

    def paused(run: Run, name: str) -> None:
        run.step(pauses.si())
        run.step(yard.do.si(name))

    a = yard.saga(paused, dispatch="inline").start("a")
    parlour.drain()
    assert (yard.done, yard.admission(a.id)) == ([], "asked")

    lanes.unpause(yard.world, "saga:paused")
    parlour.drain()

    assert (yard.done, a.refresh().status) == (["a"], "completed")
