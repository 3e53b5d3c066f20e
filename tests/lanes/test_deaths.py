"""Who dies anywhere between two statements is followed by the sweeper: nothing queues for ever, no slot is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga import Lane, Run
from celery_saga.engine import lanes
from tests.lanes.yard import Yard
from tests.scenarios.house import House, Place

_SHARES = 9
"""Deaths are shared out; one share is in a plain run."""


class Died(BaseException):
    """The process is gone."""


class Count:
    """Lets the process die before the nth statement or commit, counted from 1; 0: never."""

    def __init__(self, house: House) -> None:
        self.house, self.seen, self.last = house, 0, 0
        house.store.trace = self

    def __call__(self, label: str) -> None:
        if label.startswith("before:"):
            self.seen += 1
            if self.seen == self.last:
                raise Died(label)


def _story(house: House, yard: Yard) -> None:
    """Three runs through a lane, a capped saga and a cap for all, with a wait and a pause in between."""

    def told(run: Run, name: str) -> None:
        run.step(yard.do.si(f"{name}1"))
        run.sleep(5)
        run.step(yard.do.si(f"{name}2"))

    told_saga = yard.saga(told, lane=Lane("A", cap=1))
    lanes.set_lane(yard.world, "saga:told", lanes.LaneSpec(cap=2))
    for name in "abc":
        told_saga.start(name)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A database in memory with our tables."""
    built = Place("sqlite://")
    yield built
    built.store.close()


@pytest.mark.parametrize("share", range(_SHARES))
def test_after_a_death_anywhere_every_run_ends_and_every_slot_is_free(place: Place, share: int) -> None:
    total = _lived(place, 0)
    assert total > 100
    for last in range(1 + share, total, _SHARES):
        _lived(place, last)


def _lived(place: Place, last: int) -> int:
    place.empty()
    with House(place) as house:
        yard = Yard(house)
        _story(house, yard)
        count = Count(house)
        count.last = last

        def acts() -> None:
            house.drain()
            for _ in range(4):
                house.advance(6)

        try:
            acts()
        except Died:
            house.messages.clear()  # they were in the hands of the dead, or lost with the broker
        seen = count.seen
        house.store.trace = None
        for _ in range(40):
            if not house.store.live_versions():
                break
            house.advance(31)
        assert house.store.live_versions() == [], last
        house.advance(31)
        use = {load.lane.name: (load.used, load.queued) for load in lanes.lanes(yard.world)}
        assert use == {"lane:A": (0, 0), "saga:told": (0, 0)}, last
        assert sorted(set(yard.done)) == ["a1", "a2", "b1", "b2", "c1", "c2"]
        return seen


@pytest.mark.parametrize("share", range(_SHARES))
def test_a_pause_and_its_end_are_finished_by_the_sweeper(place: Place, share: int) -> None:
    total = _paused(place, 0)
    for last in range(1 + share, total, _SHARES):
        _paused(place, last)


def _paused(place: Place, last: int) -> int:
    place.empty()
    with House(place) as house:
        yard = Yard(house)

        def two(run: Run, name: str) -> None:
            run.step(yard.do.si(f"{name}1"))
            run.step(yard.do.si(f"{name}2"))

        made = yard.saga(two)
        runs = [made.start(name) for name in "ab"]
        count = Count(house)
        count.last = last
        try:
            lanes.pause(yard.world, "saga:two", by=None, reason="")
            lanes.unpause(yard.world, "saga:two")
        except Died:
            pass
        seen = count.seen
        house.store.trace = None
        is_paused = any(x.lane.paused_at is not None for x in lanes.lanes(yard.world))
        house.advance(31)
        house.advance(31)
        if is_paused:
            assert yard.done == [], last
            assert [yard.admission(run.id) for run in runs] == ["asked", "asked"], last
            lanes.unpause(yard.world, "saga:two")
            house.drain()
        assert sorted(yard.done) == ["a1", "a2", "b1", "b2"], last
        return seen
