"""A database, or a process, that was out of reach for a while: who could not renew a lease does not lose it (B09)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from celery_saga import Run, saga
from celery_saga.core.records import Action
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Limits
from tests.scenarios.house import House

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Clocked:
    """A house whose monotonic clock is its virtual one, and a run whose step is being executed."""

    def __init__(self, house: House, lease_s: float, interval_s: float) -> None:
        self.house = house
        limits = Limits(lease_s=lease_s, sweep_interval_s=interval_s)
        house.engine = Engine(house.store, house, house.registry, limits, monotonic_s=self._monotonic_s)

        @house.task("outage.task")
        def task() -> None: ...

        @saga(name="outage")
        def outage(run: Run) -> None:
            run.step(task.si())

        house.add(outage)
        self.run = outage.start()
        self.claimed = house.claim_next()

    def _monotonic_s(self) -> float:
        return (self.house.now - BEGIN).total_seconds()

    @property
    def is_lost(self) -> bool:
        """Its attempt was ended."""
        return self.house.rows(self.run.id, Action.LOST) > 0


@pytest.fixture
def house() -> Iterator[House]:
    with House("sqlite://") as built:
        yield built


@pytest.mark.parametrize(("lease_s", "interval_s"), [(30, 1), (3, 1), (6, 2), (5, 5), (10, 30)])
def test_after_an_outage_of_any_length_holders_have_a_lease_to_renew_in(
    house: House, lease_s: float, interval_s: float
) -> None:
    at = Clocked(house, lease_s, interval_s)
    house.advance(0)
    house.advance(interval_s + lease_s)  # nobody could renew, and nobody could look

    assert not at.is_lost
    house.advance(lease_s / 2)
    assert not at.is_lost
    assert house.engine.renew(at.claimed)
    house.advance(lease_s / 2)
    assert not at.is_lost


@pytest.mark.parametrize(("lease_s", "interval_s"), [(30, 1), (3, 1), (6, 2), (5, 5), (10, 30)])
def test_looks_that_come_in_time_end_the_leases_of_the_dead(house: House, lease_s: float, interval_s: float) -> None:
    at = Clocked(house, lease_s, interval_s)
    looks = 0
    while not at.is_lost:
        house.advance(interval_s * (1.2 if looks % 2 else 1.0))  # a little late now and then is no outage
        looks += 1

    assert looks * interval_s <= lease_s + 3 * interval_s
