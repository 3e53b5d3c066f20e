"""Durations as exact text."""

from __future__ import annotations

import pytest

from celery_saga.core.spans import span_text


@pytest.mark.parametrize(
    ("span_s", "told"),
    [
        (0.25, "0.25 s"),
        (60, "1 min"),
        (90, "90 s"),
        (5400.0, "90 min"),
        (172800.0, "2 d"),
        (90000, "25 h"),
        (86400.5, "86400.5 s"),
        (0, "0 s"),
    ],
)
def test_a_duration_is_told_in_the_largest_unit_that_says_it_exactly(span_s: float, told: str) -> None:
    assert span_text(span_s) == told
