"""What came, as a ledger tells it before and after."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from celery_saga.testing.ledger import change, is_as, read


@pytest.mark.parametrize(
    ("before", "after", "again_before", "again_after"),
    [
        (0, 500, 500, 1000),
        (Decimal(1), Decimal("1.5"), Decimal(2), Decimal("2.5")),
        ({"paid": 1, "same": 3}, {"paid": 2, "same": 3}, {"paid": 7}, {"paid": 8}),
        ({}, {"paid": 1}, {"paid": 1}, {"paid": 2}),
        ({"a": 1}, {}, {"a": 3}, {"a": 2}),
        ((0, 1), (5, 1), (5, 1), (10, 1)),
        (["x"], ["x", "y"], ["x", "y"], ["x", "y", "y"]),
        ({"x"}, {"x", "y"}, {"z"}, {"z", "y"}),
        ({"books": [1]}, {"books": [1, 2]}, {"books": []}, {"books": [2]}),
        ("a", "b", "c", "b"),
    ],
)
def test_what_changed_in_the_same_way_is_the_same(before: Any, after: Any, again_before: Any, again_after: Any) -> None:
    assert is_as(again_before, again_after, (before, after))


@pytest.mark.parametrize(
    ("before", "after", "again_before", "again_after"),
    [
        (0, 500, 0, 1000),
        ({"paid": 1}, {"paid": 2}, {"paid": 1}, {"paid": 3}),
        ({}, {"paid": 1}, {}, {"held": 1}),
        ((0, 1), (5, 1), (0, 1), (5, 2)),
        (["x"], ["x", "y"], ["x"], ["x", "y", "y"]),
        ({"x"}, {"x", "y"}, {"x"}, {"y"}),
        ("a", "b", "a", "c"),
        (True, False, False, False + 1),
    ],
)
def test_what_changed_otherwise_is_not(before: Any, after: Any, again_before: Any, again_after: Any) -> None:
    assert not is_as(again_before, again_after, (before, after))


def test_what_was_read_does_not_change_with_the_world() -> None:
    world: dict[str, list[int]] = {"books": []}

    before = read(lambda: world)
    world["books"].append(1)

    assert before == {"books": []}
    assert change(before, world) == {"books": ("added", [1])}
    assert read(None) is None
