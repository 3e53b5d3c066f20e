"""A process dies before and after every contact of a run that is patched and begins again: its end is the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from celery_saga import Run, Saga, saga
from celery_saga.client import binding
from celery_saga.core.records import Action, StepKind
from celery_saga.definition.step import Dispatch
from tests.crash.dying import LEASE_S, Died, DyingHouse
from tests.scenarios.house import Place
from tests.servers import fresh_postgresql_database


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with ExitStack() as stack:
        is_sqlite = request.param == "sqlite"
        url = "sqlite://" if is_sqlite else stack.enter_context(fresh_postgresql_database("psycopg2"))
        built = Place(url)
        stack.callback(built.store.close)
        yield built


def renewing(house: DyingHouse, dispatch: Dispatch) -> Saga[[str, int], int]:
    tasks = house.app.tasks

    @saga(name="crash-renewing", key="{order}", dispatch=dispatch)
    def crash_renewing(run: Run, order: str, turn: int) -> int:
        if run.patched("reserve-first"):
            run.step(tasks["crash.reserve"].si(order), undo=tasks["crash.release"].si(order))
        run.step(tasks["crash.charge"].si(turn), undo=tasks["crash.refund"].s())
        if turn < 3:
            run.continue_as_new(order, turn + 1)
        return turn

    house.add(crash_renewing)
    return crash_renewing


def live(house: DyingHouse, dispatch: Dispatch) -> str:
    """From the start to the end, by as many processes as it takes; the id of the run."""
    body = renewing(house, dispatch)
    binding.set_resolver(lambda _saga: house)
    dead = False
    for _ in range(12):
        try:
            if dead:
                house.revive()
            dead = False
            handle = body.start("fine", 1)
            house.drain()
            if handle.status.is_end:
                house.store.trace = None
                return handle.id
            house.advance(LEASE_S + 1)
        except Died:
            dead = True
    raise AssertionError(f"never ended: {house.labels[-30:]}")


def check(house: DyingHouse, run_id: str) -> None:
    run = house.engine.run_of(run_id)
    assert (run.status, run.result, run.generation) == ("completed", 3, 3)
    assert {name: len(house.outside.keys(name)) for name in ("reserve", "charge", "refund", "release")} == {
        "reserve": 3,
        "charge": 3,
        "refund": 0,
        "release": 0,
    }
    steps = house.store.steps(run_id, all_generations=True)
    assert [(x.generation, x.key) for x in steps if x.kind is StepKind.PATCH] == [
        (n, "reserve-first!patched") for n in (1, 2, 3)
    ]
    assert all(x.status == "done" for x in steps) and len(steps) == 9
    history = house.store.history(run_id)
    assert [row.generation for row in history if row.action is Action.CONTINUE] == [2, 3]
    assert [row.seq for row in history] == list(range(1, len(history) + 1))
    assert house.store.without_wake_up() == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("dispatch", ["broker", "inline"])
def test_whatever_dies_where_the_end_is_the_same(place: Place, dispatch: Dispatch) -> None:
    unharmed = DyingHouse(place)
    check(unharmed, live(unharmed, dispatch))

    deaths = 0
    for at in range(unharmed.passed):
        house = DyingHouse(place, at=at)
        check(house, live(house, dispatch))
        deaths += house.deaths

    assert deaths == unharmed.passed > 60
