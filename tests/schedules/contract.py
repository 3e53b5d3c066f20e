"""What holds of schedules, whatever wakes them."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from celery_saga.core.schedules import MOST_FIRES
from celery_saga.errors import DefinitionError, InvalidPayload, ScheduleNotFound
from tests.schedules.clockwork import BEGIN, Clockwork, note

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

REFUSED = {
    "nothing": {},
    "two": {"cron": "* * * * *", "every": 5},
    "four fields": {"cron": "* * * *"},
    "never": {"cron": "0 0 30 2 *"},
    "no minute": {"cron": "61 * * * *"},
    "no zone": {"cron": "* * * * *", "tz": "Mars/Base"},
    "a zone for nothing": {"every": 5, "tz": "UTC"},
    "zero": {"every": 0},
    "negative": {"every": -1},
    "too short": {"every": 0.01},
    "nan": {"every": float("nan")},
    "text": {"every": "5"},
    "naive": {"at": datetime(2027, 1, 1)},  # noqa: DTZ001 - refused
    "over": {"at": BEGIN - HOUR},
    "no such overlap": {"every": 5, "overlap": "queue"},
    "no such catch-up": {"every": 5, "catch_up": "some"},
    "too many arguments": {"every": 5, "args": [1, 2, 3]},
    "no such argument": {"every": 5, "kwargs": {"colour": "red"}},
    "not to be stored": {"every": 5, "args": [object()]},
    "no list": {"every": 5, "args": "abc"},
}
"""What is wrong with it, and what is said."""


class ScheduleContract:
    """Needs the fixture `clock`: a Clockwork, open."""

    # -- saying --------------------------------------------------------------------------------------------------
    def test_a24_a_schedule_said_again_with_another_pattern_is_one_schedule_with_the_second(
        self, clock: Clockwork
    ) -> None:
        note.schedule("nightly", cron="* * * * *")

        handle = note.schedule("nightly", cron="*/5 * * * *")

        assert [(each.id, each.pattern, each.driver) for each in clock.book.all()] == [
            ("nightly", "*/5 * * * *", clock.driver)
        ]
        record = handle.record
        assert record.next_at == BEGIN + 5 * MINUTE > clock.now
        assert (record.last_fire_at, record.last_run_id, handle.fires()) == (None, None, [])

    def test_said_again_in_the_same_words_it_is_left_as_it_was(self, clock: Clockwork) -> None:
        note.schedule("n", every=600, args=["a"])
        clock.advance(700)
        before = clock.record()

        note.schedule("n", every=timedelta(minutes=10), kwargs={"text": "a"})

        assert clock.record() == before

    def test_another_pattern_counts_from_now_and_leaves_what_was_fired(self, clock: Clockwork) -> None:
        note.schedule("n", every=600)
        clock.advance(700)
        fired = clock.record()

        note.schedule("n", every=3600)

        record = clock.record()
        assert record.next_at == clock.now + HOUR
        assert (record.last_fire_at, record.last_run_id) == (BEGIN + 10 * MINUTE, fired.last_run_id)
        assert clock.told() == ["12:10 fired"]

    def test_other_arguments_leave_the_next_time_as_it_was(self, clock: Clockwork) -> None:
        note.schedule("n", every=600, args=["a"])
        clock.advance(60)

        note.schedule("n", every=600, args=["b"], overlap="allow", catch_up="all")

        record = clock.record()
        assert (record.next_at, record.input, record.overlap) == (BEGIN + 10 * MINUTE, {"text": "b"}, "allow")

    def test_a24_what_cannot_be_is_refused_and_nothing_is_written(self, clock: Clockwork) -> None:
        note.schedule("there", every=60)
        before = clock.book.all()

        for what, said in REFUSED.items():
            for id_ in ("new", "there"):
                with pytest.raises((DefinitionError, InvalidPayload), match="nothing was written"):
                    note.schedule(id_, **said)
                assert clock.book.all() == before, what

    def test_what_is_no_id_is_refused(self, clock: Clockwork) -> None:
        wrong: list[Any] = ["", " ", "x" * 121, "a\nb", None, 5]
        for id_ in wrong:
            with pytest.raises(DefinitionError):
                note.schedule(id_, every=60)
        assert clock.book.all() == []

    def test_options_of_starts_are_refused(self, clock: Clockwork) -> None:
        with pytest.raises(DefinitionError, match=r"not those of options\(\)"):
            note.options(priority=5).schedule("n", every=60)
        assert clock.book.all() == []

    # -- firing --------------------------------------------------------------------------------------------------
    def test_each_nominal_time_gets_a_run_that_knows_it(self, clock: Clockwork) -> None:
        note.schedule("n", cron="0 * * * *", args=["it is"])

        clock.advance(3 * HOUR + MINUTE)

        runs = clock.runs()
        assert [run.scheduled_for for run in runs] == [BEGIN + n * HOUR for n in (1, 2, 3)]
        assert [run.result for run in runs] == [f"it is 01 {n}:00:00" for n in (13, 14, 15)]
        record = clock.record()
        assert (record.last_fire_at, record.last_run_id) == (runs[-1].scheduled_for, runs[-1].id)
        assert clock.told() == ["13:00 fired", "14:00 fired", "15:00 fired"]
        assert [fire.run_id for fire in clock.fires()] == [run.id for run in runs]

    def test_however_often_it_is_woken_a_nominal_time_gets_one_run(self, clock: Clockwork) -> None:
        note.schedule("n", every=60)
        clock.advance(59)

        clock.wake()
        early = len(clock.runs())
        clock.advance(1)
        for _ in range(5):
            clock.wake()

        assert (early, len(clock.runs())) == (0, 1)

    def test_a_cron_is_read_in_its_zone_over_both_changes_of_the_clocks(self, clock: Clockwork) -> None:
        berlin = ZoneInfo("Europe/Berlin")
        note.schedule("n", cron="30 2 28-30 3 *", tz="Europe/Berlin")
        note.schedule("m", cron="30 2 24-26 10 *", tz="Europe/Berlin")

        clock.advance(datetime(2026, 11, 1, tzinfo=UTC) - clock.now)

        times = [run.scheduled_for for run in clock.runs()]
        assert [f"{at.astimezone(berlin):%m-%d %H:%M %z}" for at in times if at is not None] == [
            "03-28 02:30 +0100",
            "03-29 03:00 +0200",  # 02:30 was left out
            "03-30 02:30 +0200",
            "10-24 02:30 +0200",
            "10-25 02:30 +0200",  # the first of two
            "10-26 02:30 +0100",
        ]

    def test_intervals_do_not_drift(self, clock: Clockwork) -> None:
        note.schedule("n", every=7.5)

        clock.advance(75)

        assert [run.scheduled_for for run in clock.runs()] == [BEGIN + n * timedelta(seconds=7.5) for n in range(1, 11)]

    def test_an_instant_is_fired_once_and_then_there_is_none(self, clock: Clockwork) -> None:
        handle = note.schedule("n", at=BEGIN + HOUR)

        clock.advance(3 * HOUR)

        assert [run.scheduled_for for run in clock.runs()] == [BEGIN + HOUR]
        assert (handle.next_at, handle.record.paused) == (None, False)
        assert note.schedule("n", at=BEGIN + HOUR).next_at is None  # said again when it is over: nothing changed

    def test_while_a_run_is_live_the_next_is_skipped_and_that_is_told(self, clock: Clockwork) -> None:
        note.schedule("n", every=600, kwargs={"seconds": 1500})

        clock.advance(40 * MINUTE)

        assert clock.told() == ["12:10 fired", "12:20-12:30 skipped overlap 2", "12:40 fired"]
        assert len(clock.runs()) == 2

    def test_where_overlap_is_allowed_each_is_started(self, clock: Clockwork) -> None:
        note.schedule("n", every=600, kwargs={"seconds": 1500}, overlap="allow")

        clock.advance(40 * MINUTE)

        assert clock.told() == [f"12:{n}0 fired" for n in (1, 2, 3, 4)]

    def test_after_an_outage_the_latest_is_fired_and_the_others_are_told(self, clock: Clockwork) -> None:
        note.schedule("n", every=600)

        clock.outage(timedelta(minutes=45))

        assert clock.told() == ["12:10-12:30 skipped missed 3", "12:40 fired"]
        assert [run.scheduled_for for run in clock.runs()] == [BEGIN + 40 * MINUTE]
        assert clock.record().next_at == BEGIN + 50 * MINUTE

    def test_after_an_outage_each_is_fired_where_that_is_wanted(self, clock: Clockwork) -> None:
        note.schedule("n", every=600, catch_up="all", kwargs={"seconds": 60})

        clock.outage(timedelta(minutes=45))

        assert clock.told() == [f"12:{n}0 fired" for n in (1, 2, 3, 4)]

    def test_a_long_outage_is_caught_up_in_bounded_parts(self, clock: Clockwork) -> None:
        note.schedule("n", every=60, catch_up="all", kwargs={"seconds": 3600})
        clock.lab._clock.now += timedelta(minutes=50, seconds=1)

        counts = []
        for _ in range(4):
            clock.wake()
            counts.append(len(clock.runs()))

        assert counts == [min(50, n * clock.times * MOST_FIRES) for n in (1, 2, 3, 4)]
        assert {fire.outcome.value for fire in clock.fires()} == {"fired"}
        clock.advance(60)  # what comes on time is judged as ever
        assert clock.told()[-1] == "12:51 skipped overlap 1"

    def test_thousands_that_were_missed_are_one_row_of_the_log(self, clock: Clockwork) -> None:
        note.schedule("n", every=1)

        clock.outage(timedelta(seconds=2500))

        assert [(fire.count, fire.outcome.value) for fire in clock.fires()] == [(2499, "skipped"), (1, "fired")]
        assert len(clock.runs()) == 1

    # -- pausing and removing ------------------------------------------------------------------------------------
    def test_a_paused_schedule_fires_nothing_and_its_skips_are_told(self, clock: Clockwork) -> None:
        handle = note.schedule("n", every=600)
        handle.pause(reason="stocktaking", by="ann")
        again = handle.pause(reason="another", by="bob")

        clock.advance(25 * MINUTE)
        paused = clock.record()
        handle.unpause()
        handle.unpause()
        clock.advance(10 * MINUTE)

        assert (again.pause_reason, again.pause_by, paused.paused) == ("stocktaking", "ann", True)
        assert clock.told() == ["12:10-12:20 skipped paused 2", "12:30 fired"]
        record = clock.record()
        assert (record.paused, record.pause_reason, record.pause_by) == (False, None, None)

    def test_what_comes_due_in_an_outage_of_a_pause_is_told_when_it_ends(self, clock: Clockwork) -> None:
        handle = note.schedule("n", every=600, catch_up="all")
        handle.pause()
        clock.lab._clock.now += 25 * MINUTE

        handle.unpause()
        clock.wake()

        assert clock.told() == ["12:10-12:20 skipped paused 2"]
        assert handle.next_at == BEGIN + 30 * MINUTE

    def test_said_again_a_paused_schedule_stays_paused(self, clock: Clockwork) -> None:
        note.schedule("n", every=600).pause()

        note.schedule("n", every=60)
        clock.advance(120)

        assert clock.record().paused
        assert clock.runs() == []

    def test_a_removed_schedule_fires_no_more_and_leaves_its_runs(self, clock: Clockwork) -> None:
        handle = note.schedule("n", every=600)
        clock.advance(700)

        answers = handle.remove(), handle.remove()
        clock.advance(HOUR)

        assert answers == (True, False)
        assert (len(clock.runs()), clock.book.all()) == (1, [])
        for ask in (lambda: handle.record, handle.fires, handle.pause, handle.unpause):
            with pytest.raises(ScheduleNotFound, match="no schedule 'n'"):
                ask()

    def test_removed_and_said_again_a_nominal_time_still_has_one_run(self, clock: Clockwork) -> None:
        first = note.schedule("n", at=BEGIN + HOUR)
        clock.advance(HOUR)
        before = clock.runs()
        first.remove()
        clock.lab._clock.now -= MINUTE  # a clock that was set back

        note.schedule("n", at=BEGIN + HOUR)
        clock.advance(HOUR)

        assert clock.runs() == before
        assert [fire.run_id for fire in clock.fires()] == [before[0].id]

    # -- trouble -------------------------------------------------------------------------------------------------
    def test_what_cannot_be_fired_is_handed_back_with_a_doubling_delay_and_told(self, clock: Clockwork) -> None:
        note.schedule("n", every=600)
        store = clock.lab.app.saga.store
        ahead = replace(clock.record(), version=2)  # as said by a deploy that this process is not of
        _overwrite(store, ahead)

        clock.advance(600)
        first = clock.record()
        clock.advance(14)
        later = clock.record()
        _overwrite(store, replace(later, version=1))
        clock.advance(60)

        assert first.failures == 1
        assert first.error is not None and first.error.startswith("UNKNOWN_SAGA: schedule 'n': this process knows no")
        assert (later.failures, later.next_at) == (4, BEGIN + 10 * MINUTE)  # after 1, 2 and 4 s
        assert clock.told() == ["12:10 fired"]
        assert (clock.record().failures, clock.record().error) == (0, None)

    def test_arguments_that_fit_no_more_park_the_run_and_not_the_schedule(self, clock: Clockwork) -> None:
        note.schedule("n", every=600)
        _overwrite(clock.lab.app.saga.store, replace(clock.record(), input_text='{"colour":"red"}'))

        clock.advance(25 * MINUTE)

        (run,) = clock.runs()
        assert (run.status.value, run.reason) == ("suspended", "input")
        assert clock.told() == ["12:10 fired", "12:20 skipped overlap 1"]

    def test_a_firer_that_dies_after_the_start_leaves_one_run(self, clock: Clockwork) -> None:
        note.schedule("n", every=600)
        clock.advance(599)
        clock.lab._clock.now += MINUTE / 60
        store = clock.lab.app.saga.store
        died: list[str] = []

        def die(point: str) -> None:
            if point == "after:commit insert_run":
                died.append(point)
            elif died == ["after:commit insert_run"]:
                died.append(point)
                raise _Died

        store.trace = die
        with pytest.raises(_Died):
            clock.wake()
        store.trace = None
        clock.advance(MINUTE)

        assert clock.told() == ["12:10 fired"]
        assert len(clock.runs()) == 1


class _Died(BaseException):
    """The process is gone."""


def _overwrite(store: Any, record: Any) -> None:
    from celery_saga.testing.store_schedules import write  # noqa: PLC0415 - of this alone

    write(store, record)
