"""How tables, durations and instants look as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from celery_saga.cli.tables import Table, ago, duration, plain


def test_plain_columns_are_aligned_and_nothing_is_cut_off() -> None:
    lines = list(plain(Table(("a", "long name"), [("x" * 70, "1"), ("y", "2")])))

    assert [line.rindex(last) for line, last in zip(lines, ("LONG NAME", "1", "2"), strict=True)] == [72, 72, 72]
    assert "x" * 70 in lines[1]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, ""),
        (0.0354, "35 ms"),
        (0.9999, "1.0 s"),
        (1.44, "1.4 s"),
        (720, "12 min"),
        (12600, "3.5 h"),
        (172800, "2.0 d"),
    ],
)
def test_durations_are_told_in_their_largest_unit(seconds: float | None, told: str) -> None:
    assert duration(seconds) == told


def test_an_instant_is_told_by_its_distance() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    assert ago(now - timedelta(seconds=5), now) == "5.0 s ago"
    assert ago(now + timedelta(hours=2), now) == "in 2.0 h"
    assert ago(None, now) == ""
