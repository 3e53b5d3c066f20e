"""Wake-ups that leave the queue and never arrive: a worker threw them away, or holds them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from celery_saga import Run, saga
from celery_saga.core.status import RunStatus
from celery_saga.definition.registry import Registry
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Limits, Message
from tests.scenarios.house import House

LEASE_S = 30.0


@pytest.fixture
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """With one saga; of the class that a test names as its parameter."""
    kind = getattr(request, "param", House)
    with kind("sqlite://", limits=Limits(lease_s=LEASE_S)) as found:

        @saga(name="unlucky")
        def unlucky(run: Run) -> None:
            pass

        found.add(unlucky)
        yield found


def test_a_wake_up_thrown_away_five_times_running_is_out_again_within_seven_minutes(house: House) -> None:
    """As in a fleet of which half has no celery_saga: there each loss is as likely as the next."""
    run = house.registry.get("unlucky", 1).start()  # type: ignore[union-attr]
    begun_at = house.now
    for _ in range(5):
        house.messages.clear()
        while not house.messages:
            house.now += timedelta(seconds=1)
            house.engine.sweep()
    house.drain()

    assert run.refresh().status is RunStatus.COMPLETED
    assert house.now - begun_at < timedelta(minutes=7)


def test_a_wake_up_that_a_worker_holds_for_an_hour_is_sent_a_dozen_times_at_most(house: House) -> None:
    house.registry.get("unlucky", 1).start()  # type: ignore[union-attr]
    for _ in range(3600):
        house.now += timedelta(seconds=1)
        house.engine.sweep()

    assert 3 <= len(house.messages) <= 12


def test_a_run_that_five_workers_of_an_older_deploy_hand_back_is_offered_again_within_fifteen_seconds(
    house: House,
) -> None:
    run = house.registry.get("unlucky", 1).start()  # type: ignore[union-attr]
    older = Engine(house.store, house, Registry(()), Limits(lease_s=LEASE_S), draw=lambda: 0.5)
    begun_at = house.now
    for _ in range(5):
        house.messages.clear()
        older.coordinate(run.id)
        while not house.messages:
            house.now += timedelta(seconds=0.25)
            house.engine.sweep()
    house.drain()

    assert run.refresh().status is RunStatus.COMPLETED
    assert house.now - begun_at < timedelta(seconds=15)


class Busy(House):
    """A house whose queue is never empty, because of what others send."""

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return 1 + len(self.messages)


@pytest.mark.parametrize("house", [Busy], indirect=True, ids=["busy"])
def test_a_wake_up_lost_from_a_queue_that_is_never_empty_goes_out_after_hours_and_then_ever_rarer(house: House) -> None:
    house.registry.get("unlucky", 1).start()  # type: ignore[union-attr]
    house.messages.clear()
    hours = []
    for minute in range(20 * 60):
        house.now += timedelta(minutes=1)
        house.engine.sweep()
        hours += [minute // 60] * len(house.messages)
        house.messages.clear()

    assert hours == [1, 2, 4, 8, 16]


class Moving(Busy):
    """Its queue is never empty, and what was sent ten seconds ago has come out."""

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return 0 if sent_s is not None and sent_s > 10 else super().depth(message)


@pytest.mark.parametrize("house", [Moving], indirect=True, ids=["moving"])
def test_a_wake_up_that_a_busy_queue_has_lost_is_sent_again_after_one_lease(house: House) -> None:
    begun_at = house.now
    run = house.registry.get("unlucky", 1).start()  # type: ignore[union-attr]
    house.messages.clear()
    while not house.messages:
        house.now += timedelta(seconds=1)
        house.engine.sweep()
    house.drain()

    assert run.refresh().status is RunStatus.COMPLETED
    assert house.now - begun_at <= timedelta(seconds=LEASE_S + 1)
