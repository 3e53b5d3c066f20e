"""When a sweeper looks: what it costs a fleet, and how close to a timer it comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from celery_saga.core.ports import Fleet
from celery_saga.runtime.pace import Look, Pace


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def looks(pace: Pace, clock: Clock, for_s: float, coming_s: float | None = None) -> list[tuple[float, Look]]:
    """The looks of so many seconds, in which a timer always comes so soon."""
    seen, begin_s = [], clock.now_s
    while clock.now_s < begin_s + for_s:
        look = pace.begin(1.0)
        if look is not Look.NOTHING:
            seen.append((round(clock.now_s - begin_s, 3), look))
            if pace.sees_s > 0:
                pace.expect(None if coming_s is None or coming_s > pace.sees_s else coming_s)
        clock.now_s += max(0.001, pace.next_s)
    return seen


def test_without_timers_it_looks_once_an_interval() -> None:
    clock = Clock()
    assert looks(Pace(clock), clock, 3) == [(0, Look.ALL), (1, Look.ALL), (2, Look.ALL)]


def test_it_looks_just_after_a_timer_that_it_saw_coming() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.begin(1.0) is Look.ALL
    pace.expect(0.4)
    assert pace.next_s == pytest.approx(0.402)
    clock.now_s += 0.401
    assert pace.begin(1.0) is Look.NOTHING
    clock.now_s += 0.002
    assert pace.begin(1.0) is Look.TIMERS
    assert pace.begin(1.0) is Look.NOTHING
    assert pace.next_s == pytest.approx(0.597)


def test_timers_without_end_cost_a_look_each_tenth_of_an_interval() -> None:
    clock = Clock()
    seen = looks(Pace(clock), clock, 10, coming_s=0.001)
    assert [look for _, look in seen].count(Look.ALL) == 10
    assert 90 <= len(seen) <= 110


def test_a_fleet_shares_its_looks_at_all_and_those_at_timers() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.sweepers = 40
    seen = looks(pace, clock, 100, coming_s=0.001)
    assert [at_s for at_s, look in seen if look is Look.ALL] == [0, 20, 40, 60, 80]
    assert len(seen) <= 5 * 11  # of each of forty: about twenty a second, of all of them


def test_a_fleet_that_was_frozen_as_one_shares_its_looks_again() -> None:
    clock = Clock()
    fleet = [Pace(clock) for _ in range(12)]
    for number, pace in enumerate(fleet):
        pace.join(Fleet(12, number, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock.now_s)))
    seen = []
    while clock.now_s < 160:
        seen += [clock.now_s for pace in fleet if pace.begin(1.0) is Look.ALL]  # the first time all of them at once
        clock.now_s += 0.05

    settled = [at_s for at_s in seen if at_s > 120]
    assert 70 <= len(settled) <= 90, "about two a second"
    assert max(later - at_s for at_s, later in pairwise(settled)) < 0.7


def test_more_to_do_brings_the_next_look_forward() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(1.0)
    pace.hurry()
    assert pace.begin(1.0) is Look.ALL


def test_what_failed_is_looked_at_again_soon_and_by_a_fleet_no_oftener_than_it_looks() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.begin(3600.0) is Look.ALL
    pace.failed()
    assert pace.next_s == 1

    pace.sweepers = 100
    assert pace.begin(1.0) is Look.NOTHING
    clock.now_s += 1
    assert pace.begin(1.0) is Look.ALL
    pace.failed()
    assert pace.next_s > 40
