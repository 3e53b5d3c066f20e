"""The checkout saga dies before and after every statement, commit, publish and effect: its end is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.crash.dying import STORIES, DyingHouse, check, outside_transactions, tell
from tests.scenarios.house import Place
from tests.servers import fresh_postgresql_database

Fresh = Callable[[int | None], DyingHouse]


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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(STORIES))
def test_whatever_dies_where_the_end_is_the_same(fresh: Fresh, name: str) -> None:
    story = STORIES[name]
    unharmed = fresh(None)
    run_id = tell(unharmed, story)
    reference = unharmed.outside.first()
    check(unharmed, run_id, story, reference)

    deaths = 0
    for at in range(unharmed.passed):
        house = fresh(at)
        run_id = tell(house, story)
        check(house, run_id, story, reference)
        deaths += house.deaths

    assert deaths == unharmed.passed
    assert deaths > 60


@pytest.mark.timeout(600)
@pytest.mark.parametrize("half_way", [False, True], ids=["others finish", "others begin"])
@pytest.mark.parametrize("name", sorted(STORIES))
def test_whoever_is_stopped_for_longer_than_a_lease_changes_nothing_when_it_goes_on(
    fresh: Fresh, name: str, half_way: bool
) -> None:
    story = STORIES[name]
    unharmed = fresh(None)
    tell(unharmed, story)
    reference = unharmed.outside.first()

    points = outside_transactions(unharmed.labels)
    for stop_at in points:
        house = fresh(None)
        house.stop_at, house.half_way = stop_at, half_way
        run_id = tell(house, story)
        check(house, run_id, story, reference)

    assert len(points) > 12
