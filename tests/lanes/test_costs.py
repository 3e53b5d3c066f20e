"""What admission costs on PostgreSQL: nothing where none is needed, a bounded number of statements where it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga import Run
from celery_saga.core.admission import LaneSpec
from celery_saga.engine import lanes
from tests.engine.test_costs import Meter
from tests.lanes.yard import Yard
from tests.scenarios.house import House

STEPS = 3


@pytest.fixture
def server(postgresql_url: str) -> Iterator[House]:
    """A house on PostgreSQL."""
    with House(postgresql_url) as built:
        yield built


def _cost(house: House, yard: Yard, name: str, lane: str | None) -> Meter:
    def three(run: Run, name: str) -> None:
        for number in range(STEPS):
            run.step(yard.do.si(f"{name}{number}"))

    made = yard.saga(three, name=name, lane=lane)
    meter = Meter(house)
    made.start("x")
    house.drain()
    house.store.trace = None
    return meter


def test_a_run_without_lane_costs_the_same_beside_capped_lanes_and_sagas(server: House) -> None:
    yard = Yard(server)
    before = _cost(server, yard, "before", None)

    lanes.set_lane(yard.world, "lane:A", LaneSpec(cap=1))
    lanes.set_lane(yard.world, "saga:other", LaneSpec(cap=1))
    after = _cost(server, yard, "after", None)

    assert after.labels == before.labels
    assert not any("slot" in label or "lane" in label or "gate" in label for label in after.labels)


def test_a_lane_costs_few_statements_and_the_same_commits_whatever_the_number_of_steps(server: House) -> None:
    yard = Yard(server)
    without = _cost(server, yard, "without", None)
    within = _cost(server, yard, "within", "A")

    # let in: under the lane's lock, and in the run; given back at the end: in its last transaction, and in the lane
    assert within.commits == {
        **without.commits,
        "commit insert_run": 1,
        "commit admit": 2,
        "commit claim": STEPS,
        "commit transact": STEPS + 2,
    }
    # Its slots must be known as of after each claim and under the lock: there are no quick ways for it on PostgreSQL.
    assert within.statements - without.statements <= 34 + 7 * STEPS
