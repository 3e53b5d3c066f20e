"""Groups, maps and races die before and after every statement, commit, publish and effect: nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from celery_saga import Run, saga, step
from celery_saga.client import binding
from celery_saga.client.current import current_step
from celery_saga.core.records import Action, StepKind
from celery_saga.core.status import RunStatus
from celery_saga.definition.saga import Saga
from tests.crash.dying import LEASE_S, Died, DyingHouse, outside_transactions
from tests.scenarios.house import Place
from tests.servers import fresh_postgresql_database

Fresh = Callable[[int | None], DyingHouse]


class Refused(Exception):
    """What a task raises that the sagas declare."""


@dataclass(frozen=True)
class Story:
    """A body, and how its run may end; `kept`: how many effects are left standing when it completes."""

    body: Callable[[DyingHouse], Saga[Any, Any]]
    ends: tuple[RunStatus, ...]
    kept: int = 0


def _tasks(house: DyingHouse) -> tuple[Any, Any]:
    @house.task("joined.do")
    def do(name: str) -> str:
        house.effect(name)
        if name == "refuses":
            raise Refused(name)
        return name

    @house.task("joined.undo")
    def undo(name: str | None) -> None:
        house.effect(f"undo {current_step.step.removesuffix('!undo')}")

    return do, undo


def grouped(house: DyingHouse) -> Saga[Any, Any]:
    do, undo = _tasks(house)

    @saga(name="joined-group", errors=[Refused])
    def body(run: Run) -> Any:
        def part(run: Run) -> str:
            run.step(do.si("b1"), undo=undo)
            return run.step(do.si("b2"), undo=undo)

        return list(run.group(step(do.si("a"), undo=undo), part, concurrency=1))

    return body


def aborted(house: DyingHouse) -> Saga[Any, Any]:
    do, undo = _tasks(house)

    @saga(name="joined-abort", errors=[Refused])
    def body(run: Run) -> Any:
        def part(run: Run) -> None:
            run.step(do.si("b"), undo=undo)
            run.step(do.si("refuses"))

        return list(run.group(step(do.si("a"), undo=undo), part))

    return body


def raced(house: DyingHouse) -> Saga[Any, Any]:
    do, undo = _tasks(house)

    @saga(name="joined-race", errors=[Refused])
    def body(run: Run) -> Any:
        def part(run: Run) -> str:
            run.step(do.si("b"), undo=undo)
            run.sleep(5)
            return "slow"

        won = run.race(a=step(do.si("a"), undo=undo), b=part)
        return won.name, run.step(do.si("after"), undo=undo)

    return body


def mapped(house: DyingHouse) -> Saga[Any, Any]:
    do, undo = _tasks(house)

    @saga(name="joined-map", errors=[Refused])
    def body(run: Run) -> Any:
        got = run.map(do, ["x", "refuses", "y"], undo=undo, on_failure="collect", concurrency=2)
        return got.succeeded

    return body


def scoped(house: DyingHouse) -> Saga[Any, Any]:
    do, undo = _tasks(house)

    @saga(name="joined-scope", errors=[Refused])
    def body(run: Run) -> Any:
        run.step(do.si("a"), undo=undo)
        try:
            with run.scope("attempt"):
                run.step(do.si("b1"), undo=undo)
                run.group(step(do.si("b2"), undo=undo), lambda run: run.step(do.si("b3"), undo=undo))
                run.step(do.si("refuses"))
        except Refused:
            return run.step(do.si("c"), undo=undo)

    return body


STORIES = {
    "scope": Story(scoped, (RunStatus.COMPLETED,), 2),
    "group": Story(grouped, (RunStatus.COMPLETED,), 3),
    "abort": Story(aborted, (RunStatus.FAILED,)),
    "race": Story(raced, (RunStatus.COMPLETED,), 2),
    "map": Story(mapped, (RunStatus.COMPLETED,), 2),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest) -> Iterator[Fresh]:
    """Makes a house with empty tables that dies at a given point."""
    with ExitStack() as stack:
        url = "sqlite://"
        if request.param == "postgresql":
            url = stack.enter_context(fresh_postgresql_database("psycopg2"))
        place = Place(url)
        stack.callback(place.store.close)
        yield lambda at: DyingHouse(place, at=at)


def tell(house: DyingHouse, story: Story) -> str:
    """Live through the story, reviving as often as the process dies; the id of the run."""
    body = story.body(house)
    house.add(body)
    binding.set_resolver(lambda _saga: house)
    run_id, dead = None, False
    for _ in range(16):
        try:
            if dead:
                house.revive()
            dead = False
            run_id = run_id or body.options(key="one").start().id
            house.drain()
            loaded = house.store.load(run_id)
            assert loaded is not None
            if loaded.snapshot.run.status.is_end:
                house.store.trace = None
                return run_id
            house.advance(LEASE_S + 1)
        except Died:
            dead = True
    raise AssertionError(f"never ended: {house.labels[-30:]}")


def check(house: DyingHouse, run_id: str, story: Story) -> None:
    """What must hold whatever died where: the ledger nets to what is kept, and every checkpoint is there once."""
    loaded = house.store.load(run_id)
    assert loaded is not None
    assert loaded.snapshot.run.status in story.ends
    steps = {x.key: x for x in house.store.steps(run_id)}
    done = {x.idempotency_key: x for x in steps.values() if x.kind is StepKind.STEP}
    standing = [
        key
        for name, key in dict.fromkeys(house.outside.effects)
        if not name.startswith("undo") and name != "refuses" and f"undo {done[key].key}" not in house.outside.first()
    ]
    assert len(standing) == story.kept, (standing, house.outside.effects)
    for key in standing:
        assert done[key].status == "done"
    undone = [name for name in house.outside.first() if name.startswith("undo")]
    assert len(undone) == len(set(undone))
    history = house.store.history(run_id)
    assert [row.seq for row in history] == list(range(1, len(history) + 1))
    for each in steps.values():
        if each.kind in (StepKind.STEP, StepKind.UNDO):
            oks = [row for row in history if row.step == each.key and row.action is Action.OK]
            assert len(oks) == (each.status == "done"), f"{each.key}: one checkpoint"
    assert all(x.status.is_end for x in steps.values())
    assert house.store.without_wake_up() == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(STORIES))
def test_whatever_dies_in_a_join_its_end_is_the_same(fresh: Fresh, name: str) -> None:
    story = STORIES[name]
    unharmed = fresh(None)
    check(unharmed, tell(unharmed, story), story)

    deaths = 0
    for at in range(unharmed.passed):
        house = fresh(at)
        check(house, tell(house, story), story)
        deaths += house.deaths

    assert deaths == unharmed.passed
    assert deaths > 60


@pytest.mark.timeout(600)
@pytest.mark.parametrize("half_way", [False, True], ids=["others finish", "others begin"])
@pytest.mark.parametrize("name", sorted(STORIES))
def test_whoever_is_stopped_in_a_join_changes_nothing_when_it_goes_on(fresh: Fresh, name: str, half_way: bool) -> None:
    story = STORIES[name]
    unharmed = fresh(None)
    tell(unharmed, story)

    points = outside_transactions(unharmed.labels)
    for stop_at in points:
        house = fresh(None)
        house.stop_at, house.half_way = stop_at, half_way
        check(house, tell(house, story), story)

    assert len(points) > 12
