"""Nominal times over changes of the clocks, intervals without drift, and patterns that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from celery_saga.core.schedules import PatternKind
from celery_saga.engine.nominal import check_cron, check_zone, times_of
from celery_saga.errors import DefinitionError

BERLIN = "Europe/Berlin"
SPRING = datetime(2026, 3, 28, 22, tzinfo=UTC)
"""The evening before 2026-03-29, on which 02:00 to 03:00 is left out in Berlin, at 01:00 UTC."""
AUTUMN = datetime(2026, 10, 24, 21, 59, tzinfo=UTC)
"""The evening before 2026-10-25, on which 02:00 to 03:00 comes twice in Berlin, until 01:00 UTC and after it."""


def cron(expression: str, after: datetime, count: int, zone: str = BERLIN) -> list[str]:
    """The next nominal times, as day and time in UTC."""
    step = times_of(PatternKind.CRON, expression, zone, after)
    found: list[str] = []
    for _ in range(count):
        at = step(after)
        assert at is not None and at.utcoffset() == timedelta(0)
        assert at > after
        found.append(f"{at:%d %H:%M}")
        after = at
    return found


def test_a_time_that_is_left_out_fires_when_the_clock_has_been_put_forward() -> None:
    assert cron("30 2 * * *", SPRING, 3) == ["29 01:00", "30 00:30", "31 00:30"]
    assert cron("15,45 2 * * *", SPRING, 3) == ["29 01:00", "30 00:15", "30 00:45"]
    assert cron("0 3 * * *", SPRING, 2) == ["29 01:00", "30 01:00"]


def test_a_time_that_comes_twice_fires_the_first_time() -> None:
    assert cron("30 2 * * *", AUTUMN, 3) == ["25 00:30", "26 01:30", "27 01:30"]
    assert cron("0 2 * * *", AUTUMN, 2) == ["25 00:00", "26 01:00"]
    assert cron("0 1-4 * * *", AUTUMN, 5) == ["24 23:00", "25 00:00", "25 02:00", "25 03:00", "26 00:00"]


def test_every_hour_and_every_half_hour_go_by_elapsed_time() -> None:
    assert cron("30 * * * *", SPRING, 5) == ["28 22:30", "28 23:30", "29 00:30", "29 01:30", "29 02:30"]
    assert cron("30 * * * *", AUTUMN, 6) == ["24 22:30", "24 23:30", "25 00:30", "25 01:30", "25 02:30", "25 03:30"]
    assert cron("*/30 * * * *", AUTUMN, 9)[4:] == ["25 00:00", "25 00:30", "25 01:00", "25 01:30", "25 02:00"]


def test_every_some_minutes_of_one_hour_of_the_day_comes_in_each_of_the_two_and_not_in_the_one_left_out() -> None:
    assert cron("*/20 2 * * *", SPRING, 1) == ["30 00:00"]
    assert cron("*/20 2 * * *", AUTUMN, 7) == [
        *("25 00:00", "25 00:20", "25 00:40"),
        *("25 01:00", "25 01:20", "25 01:40"),
        "26 01:00",
    ]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 1-4 * * *", "*/20 2 * * *", "7 * * * *", "0 4 29 3,10 *"])
@pytest.mark.parametrize("start", [SPRING, AUTUMN])
def test_the_times_do_not_hang_on_when_one_asks(expression: str, start: datetime) -> None:
    step = times_of(PatternKind.CRON, expression, BERLIN, start)
    times = [start]
    for _ in range(6):
        at = step(times[-1])
        assert at is not None
        times.append(at)

    for before, at in pairwise(times):
        for asked in (before, before + (at - before) / 2, at - timedelta(microseconds=1)):
            assert step(asked) == at


def test_intervals_are_counted_from_the_anchor_and_do_not_drift() -> None:
    anchor = datetime(2026, 3, 28, 12, 0, 0, 123, tzinfo=UTC)
    step = times_of(PatternKind.EVERY, "0.1", "UTC", anchor)
    at = anchor

    for _ in range(10_000):
        found = step(at)
        assert found is not None
        at = found

    assert at == anchor + timedelta(seconds=1000)
    assert step(anchor + timedelta(days=365, microseconds=1)) == anchor + timedelta(days=365, seconds=0.1)
    assert step(anchor - timedelta(days=1)) == anchor + timedelta(seconds=0.1)


def test_an_interval_is_the_same_over_a_change_of_the_clocks() -> None:
    anchor = datetime(2026, 3, 28, 1, 30, tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)

    assert times_of(PatternKind.EVERY, "86400.0", "UTC", anchor)(anchor) == anchor + timedelta(hours=24)


def test_an_instant_comes_once() -> None:
    step = times_of(PatternKind.AT, "2026-03-29T01:00:00+00:00", "UTC", SPRING)
    at = datetime(2026, 3, 29, 1, tzinfo=UTC)

    assert step(SPRING) == at
    assert step(at) is None


@pytest.mark.parametrize(
    "expression",
    ["", "x", "0 0 * *", "0 0 0 * * *", "60 * * * *", "* 24 * * *", "0 0 30 2 *", "0 0 ? * *", "@daily", None, 5],
)
def test_an_expression_that_cannot_be_read_or_never_comes_is_refused(expression: object) -> None:
    with pytest.raises(DefinitionError, match="nothing was written"):
        check_cron(expression, "cron=")


@pytest.mark.parametrize("zone", ["Mars/Base", "", "Europe", "../etc/passwd", "/etc/localtime", None, 1])
def test_a_zone_that_is_none_is_refused(zone: object) -> None:
    with pytest.raises(DefinitionError, match="must be the name of a time zone"):
        check_zone(zone, "tz=")


@pytest.mark.parametrize("expression", ["0 12 * * *", "0 0 31 12 *", "* * * * *"])
def test_no_time_follows_where_the_calendar_ends(expression: str) -> None:
    after = times_of(PatternKind.CRON, expression, "Asia/Tehran", datetime(2026, 1, 1, tzinfo=UTC))

    assert after(datetime.max.replace(tzinfo=UTC) - timedelta(seconds=30)) is None
