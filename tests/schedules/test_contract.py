"""The contract of schedules that the sweeper wakes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from celery_saga.engine.schedules import fire
from tests.schedules.clockwork import Clockwork, make_app, note
from tests.schedules.contract import ScheduleContract


class TestSweeper(ScheduleContract):
    """Without Django."""

    @pytest.fixture
    def clock(self) -> Iterator[Clockwork]:
        with Clockwork(make_app()) as clock:
            yield clock


class _Died(BaseException):
    """The process is gone."""


def test_wherever_a_firer_dies_each_nominal_time_gets_one_run_and_one_row_of_the_log() -> None:
    """Before and after each statement, commit and rollback of a firing that skips one time and fires another."""
    point, points = -1, 1  # the first passes all, and counts them
    with Clockwork(make_app()) as clock:
        while point < points:
            begin, handle = clock.now, note.schedule(f"n{point}", every=600, kwargs={"seconds": 60})
            clock.lab._clock.now += timedelta(minutes=21)
            passed = _passed(clock, point)
            clock.advance(timedelta(minutes=10))

            rows = [(fire.outcome.value, fire.count, fire.nominal_at) for fire in clock.fires(handle.id)]
            times = [begin + timedelta(minutes=n) for n in (10, 20, 30)]
            assert rows == list(zip(("skipped", "fired", "fired"), (1, 1, 1), times, strict=True)), point
            assert [run.scheduled_for for run in clock.runs() if f":{handle.id}:" in str(run.key)] == times[1:], point
            handle.remove()
            point, points = point + 1, max(points, len(passed))
    assert points > 20


def _passed(clock: Clockwork, point: int) -> list[str]:
    """What a firing passes, which dies at that point, counted from 0; points that are not reached kill nobody."""
    store, passed = clock.lab.app.saga.store, []

    def pass_by(label: str) -> None:
        if len(passed) == point:
            raise _Died
        passed.append(label)

    store.trace = pass_by
    with suppress(_Died):
        clock.wake()
    store.trace = None
    return passed


@pytest.fixture
def clock() -> Iterator[Clockwork]:
    with Clockwork(make_app()) as clock:
        yield clock


def test_two_that_fire_the_same_time_are_told_once(clock: Clockwork) -> None:
    """As when the hold of one ends before it has written what it did."""
    note.schedule("n", every=600)
    clock.lab._clock.now += timedelta(minutes=21)
    held = clock.record()

    fire(clock.lab.engine.world, held)
    after = clock.record()
    fire(clock.lab.engine.world, held)

    assert clock.told() == ["12:10 skipped missed 1", "12:20 fired"]
    assert clock.record() == after
    assert len(clock.runs()) == 1


def test_a_pattern_that_is_changed_while_somebody_fires_stays_and_what_was_fired_is_told(clock: Clockwork) -> None:
    note.schedule("n", every=600)
    clock.lab._clock.now += timedelta(minutes=10)
    held = clock.record()
    note.schedule("n", every=3600)
    changed = clock.record()

    fire(clock.lab.engine.world, held)

    record = clock.record()
    assert clock.told() == ["12:10 fired"]
    assert (record.next_at, record.wake_at, record.pattern) == (changed.next_at, changed.wake_at, "3600.0")
    assert record.last_fire_at == held.next_at


def test_a_schedule_that_is_removed_while_somebody_fires_stays_removed(clock: Clockwork) -> None:
    handle = note.schedule("n", every=600)
    clock.lab._clock.now += timedelta(minutes=10)
    held = clock.record()
    handle.remove()

    fire(clock.lab.engine.world, held)

    assert (clock.book.all(), len(clock.runs())) == ([], 1)


def test_arguments_that_change_after_a_death_leave_the_run_as_it_was_started(clock: Clockwork) -> None:
    note.schedule("n", every=600, args=["old"])
    clock.lab._clock.now += timedelta(minutes=10)
    started = [point for point, label in enumerate(_labels()) if label == "after:commit insert_run"]
    _passed(clock, started[0] + 1)

    note.schedule("n", every=600, args=["new"])
    clock.advance(timedelta(minutes=10))

    assert clock.told() == ["12:10 fired", "12:20 fired"]
    assert [run.result for run in clock.runs()] == ["old 01 12:10:00", "new 01 12:20:00"]


def _labels() -> list[str]:
    """What a firing passes, in order."""
    with Clockwork(make_app()) as clock:
        note.schedule("n", every=600, args=["old"])
        clock.lab._clock.now += timedelta(minutes=10)
        return _passed(clock, -1)
