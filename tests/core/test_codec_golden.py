"""Texts that version 1 wrote are read for ever, and written the same."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from celery_saga.core import codec, codec_read

BERLIN = ZoneInfo("Europe/Berlin")
GOLDEN = json.loads((Path(__file__).parent / "codec_v1.json").read_text("utf-8"))

VALUES: dict[str, object] = {
    "none": None,
    "true": True,
    "int": -42,
    "int beyond 64 bits": 10**30,
    "int of 1,100 bits": 1 << 1100,
    "negative int of 1,100 bits": -(1 << 1100),
    "float": 0.1,
    "float without a fraction": 1.0,
    "large float": 1e300,
    "text": 'quote " backslash \\ line\n nul \0 ä € 😀',
    "text like a tag": "$date",
    "list": [1, [2, []]],
    "mapping": {"b": 1, "a": {"": None}},
    "mapping like a tag": {"$date": "2026-01-01"},
    "mapping like an escaped tag": {"$$date": {"$": 1}, "x": 2},
    "tuple": (1, (), "a"),
    "set": {"b", "a"},
    "frozenset": frozenset({(1, 2)}),
    "bytes": b"\x00\xff",
    "decimal": Decimal("-1.50"),
    "decimal with exponent": Decimal("1E+20"),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "date": date(2026, 11, 29),
    "time": time(1, 2, 3, 4),
    "time with offset": time(1, 2, tzinfo=timezone(timedelta(hours=-3))),
    "time with zone": time(1, 2, tzinfo=BERLIN),
    "naive datetime": datetime(2026, 11, 29, 1, 2, 3, 4),  # noqa: DTZ001
    "naive datetime with fold": datetime(2026, 11, 29, 1, 2, fold=1),  # noqa: DTZ001
    "UTC datetime": datetime(2026, 11, 29, tzinfo=UTC),
    "datetime with offset": datetime(2026, 11, 29, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "datetime with zone": datetime(2026, 7, 1, 12, tzinfo=BERLIN),
    "datetime with zone and fold": datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    "timedelta": timedelta(days=-1, seconds=2, microseconds=3),
    "all in one": {"order": ({"$id": Decimal(1)}, [{date(2026, 1, 1)}])},
}


def test_the_file_and_the_values_are_about_the_same():
    assert GOLDEN.keys() == VALUES.keys()


@pytest.mark.parametrize("name", VALUES)
def test_a_text_of_version_1_is_read(name):
    again = codec.decode(GOLDEN[name])

    assert again == VALUES[name]
    assert repr(again) == repr(VALUES[name]) or name in {"set", "mapping"}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_written_as_in_version_1(name):
    assert codec.encode(VALUES[name]) == GOLDEN[name]


def test_the_file_has_each_tag():
    texts = "".join(GOLDEN.values())

    assert [tag for tag in codec_read._TAGS if f'{{"{tag}":' not in texts] == []


def test_digests_of_version_1_stay():
    assert codec.digest({"order": "o1", "cents": Decimal("1.50")}) == (
        "4ef92a7d7f35b292b719f4817c9e2bb1ed09b411516b5f562ea242cfae140af1"
    )
