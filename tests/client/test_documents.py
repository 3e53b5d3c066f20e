"""How stored values look as JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from celery_saga.client.documents import failure_document, readable, stored, text
from celery_saga.core import codec, failure


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2026, 1, 31, 8, tzinfo=UTC), "2026-01-31T08:00:00+00:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (time(8, 30), "08:30:00"),
        (timedelta(minutes=2), 120.0),
        (Decimal("9.50"), "9.50"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (b"ab", "YWI="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, (2, None)), [1, [2, None]]),
        (2**80, 2**80),
        ({"$date": 1, "a": {"b": Decimal("1")}}, {"$date": 1, "a": {"b": "1"}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_stored_value_is_shown_as_plain_json(value: object, shown: object) -> None:
    found = stored(codec.encode(value))

    assert found == shown
    assert json.loads(text(found)) == shown
    assert readable(value) == shown


def test_a_stored_text_that_cannot_be_read_is_shown_as_it_is() -> None:
    assert stored('{"$nonsense": 1}') == {"unreadable": '{"$nonsense": 1}'}


def test_an_error_is_shown_with_its_causes_and_without_its_traceback() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        found = failure_document(failure.capture(error))

    assert found is not None
    assert (found["type"], found["message"]) == ("builtins.ValueError", "outer")
    assert found["cause"]["type"] == "builtins.KeyError"
    assert "traceback" not in found
