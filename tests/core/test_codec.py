"""Values come back with value and type; limits, damaged texts and digests."""

from __future__ import annotations

import collections
import enum
import json
import math
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_saga.core import codec
from celery_saga.errors import InvalidPayload, PayloadTooLarge

UNHURRIED = settings(deadline=None)  # the claims are not about time
TEXT = st.text(st.characters(codec="utf-8"))
KEYS = TEXT.filter(lambda key: key != "__type__") | st.sampled_from(["$", "$$", "$date", "$tuple", "$$int"])
OFFSETS = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
ZONES = st.none() | st.just(UTC) | st.timezones() | OFFSETS


HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids()
    | st.dates()
    | st.times(timezones=st.none() | st.just(UTC) | OFFSETS)
    | st.datetimes(timezones=ZONES)
    | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
VALUES = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """A form in which values of unequal types, zones, folds, signs or orders of keys differ."""
    match value:
        case dict():
            return "dict", [(key, shape(item)) for key, item in value.items()]
        case list() | tuple():
            return type(value), [shape(item) for item in value]
        case set() | frozenset():
            return type(value), sorted(repr(shape(item)) for item in value)
        case datetime() | time():
            zone = getattr(value.tzinfo, "key", value.tzinfo and value.utcoffset())
            return type(value), value.replace(tzinfo=None).isoformat(), value.fold, zone
        case int() if abs(value) > 10**300:
            return int, hex(value)
    return type(value), repr(value)


# Round trip


@UNHURRIED
@given(VALUES)
def test_any_value_comes_back_with_value_and_type(value):
    assert shape(codec.decode(codec.encode(value))) == shape(value)


@UNHURRIED
@given(VALUES)
def test_any_text_is_json_that_utf_8_can_carry_without_nul(value):
    text = codec.encode(value)

    json.loads(text)
    assert b"\0" not in text.encode()


@UNHURRIED
@given(JSON)
def test_plain_and_full_way_write_the_same(value):
    # Beside a tuple, the plain way is not taken.
    assert codec.encode((value,)) == '{"$tuple":[' + codec.encode(value) + "]}"


@UNHURRIED
@given(VALUES)
def test_a_value_that_came_back_is_written_the_same(value):
    text = codec.encode(value)

    assert codec.encode(codec.decode(text)) == text


@UNHURRIED
@given(st.integers(min_value=900, max_value=40_000), st.sampled_from([1, -1]), st.integers(-1, 1))
def test_ints_around_every_power_of_two_come_back(bits, sign, delta):
    value = sign * ((1 << bits) + delta)

    assert codec.decode(codec.encode(value)) == value
    assert codec.decode(codec.encode({"a": (value,)})) == {"a": (value,)}


def test_an_int_beyond_pythons_limit_of_digits_comes_back():
    value = 10 ** (sys.get_int_max_str_digits() + 700)

    assert codec.decode(codec.encode(value)) == value


def test_plain_values_are_plain_json():
    value = {"order": "o1", "items": [1, 2.5, None, True], "naïve": {}}

    assert codec.encode(value) == '{"order":"o1","items":[1,2.5,null,true],"naïve":{}}'


def test_the_order_of_keys_is_kept():
    assert list(codec.decode(codec.encode({"b": 1, "a": (2,), "$c": 3}))) == ["b", "a", "$c"]


def test_minus_zero_keeps_its_sign():
    assert math.copysign(1, codec.decode(codec.encode(-0.0))) == -1


def test_the_two_hours_that_a_clock_shows_twice_are_told_apart():
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)

    assert codec.decode(codec.encode(first)).utcoffset() == timedelta(hours=2)
    assert codec.decode(codec.encode(second)).utcoffset() == timedelta(hours=1)


@pytest.mark.parametrize("microseconds", [1, -1, 999_999, -999_999])
def test_an_offset_of_less_than_a_second_is_not_taken_for_utc(microseconds):
    zone = timezone(timedelta(microseconds=microseconds))

    for value in (datetime(2026, 1, 1, tzinfo=zone), time(1, tzinfo=zone)):
        assert codec.decode(codec.encode(value)).utcoffset() == timedelta(microseconds=microseconds)


def test_a_set_is_written_the_same_whatever_its_order():
    names = [f"name{number}" for number in range(50)]

    # Their hashes, and so a set's order, change with each process.
    assert codec.encode(set(names)) == '{"$set":' + codec.encode(sorted(names)) + "}"


def test_elements_of_a_set_that_are_stored_alike_are_refused():
    with pytest.raises(InvalidPayload, match="stored alike"):
        codec.encode({Color.RED, "red"})


# Subclasses and values with an annotation


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Text(str, enum.Enum):  # noqa: UP042  # as older projects have it
    A = "a"

    def __str__(self) -> str:
        return "not the value"


class Size(enum.IntEnum):
    SMALL = 1


class Flags(enum.Flag):
    R = 1
    W = 2


class LoudStr(str):
    def __str__(self) -> str:
        return "LOUD"


class LoudInt(int):
    def __repr__(self) -> str:
        return "LOUD"

    __str__ = __repr__


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Item:
    price: Decimal
    double: int = field(default=0, init=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Color.RED, "red"),
        (Color.PAIR, (1, 2)),
        (Text.A, "a"),
        ({Text.A: Text.A}, {"a": "a"}),
        (Size.SMALL, 1),
        (Flags.R | Flags.W, 3),
        (LoudStr("x"), "x"),
        ({LoudStr("x"): 1}, {"x": 1}),
        (LoudInt(3), 3),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (Point(1, 2), (1, 2)),
        (Item(Decimal(1)), {"price": Decimal(1)}),
        ({Color.RED, Color.PAIR}, {"red", (1, 2)}),
        (type("Stamp", (datetime,), {})(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        (type("Id", (UUID,), {})(int=3), UUID(int=3)),
    ],
    ids=lambda x: repr(sorted(x, key=repr) if isinstance(x, set) else x),
)
def test_a_subclass_is_written_as_what_it_is_of(value, expected):
    again = codec.decode(codec.encode(value))

    assert shape(again) == shape(expected)
    assert codec.digest(value) == codec.digest(expected)


# Limits


def test_the_limit_counts_bytes_of_utf_8():
    assert codec.encode("€", limit_bytes=5) == '"€"'
    with pytest.raises(PayloadTooLarge, match="order is 5 bytes as text and the limit is 4 bytes") as caught:
        codec.encode("€", limit_bytes=4, what="order")

    assert (caught.value.size_bytes, caught.value.limit_bytes) == (5, 4)


def test_a_value_of_many_references_to_one_is_refused_without_being_written_out():
    value: list[Any] = []
    for _ in range(80):
        value = [value, value]

    for given_value in (value, (value,)):
        with pytest.raises(PayloadTooLarge, match="more than"):
            codec.encode(given_value, limit_bytes=10_000)


@UNHURRIED
@given(VALUES)
def test_a_limit_refuses_exactly_what_is_longer(value):
    size_bytes = len(codec.encode(value).encode())

    codec.encode(value, limit_bytes=size_bytes)
    with pytest.raises(PayloadTooLarge):
        codec.encode(value, limit_bytes=size_bytes - 1)


# Reading


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"$colour":"red"}', r"tag '\$colour'.*newer version"),
        ('[1,{"a":{"$colour":"red"}}]', "does not know"),
        ('{"$date":"2026-01-01","x":1}', "beside other keys"),
        ('{"$date":"yesterday"}', r"'\$date' cannot be read"),
        ('{"$date":3}', "cannot be read"),
        ('{"$tuple":3}', "cannot be read"),
        ('{"$set":[[]]}', "cannot be read"),
        ('{"$bytes":"?"}', "cannot be read"),
        ('{"$decimal":"x"}', "cannot be read"),
        ('{"$int":"xyz"}', "cannot be read"),
        ('{"$uuid":"1"}', "cannot be read"),
        ('{"$timedelta":[1]}', "cannot be read"),
        ('{"$timedelta":[1e99,0,0]}', "cannot be read"),
        ('{"$datetime":"2026-01-01T00:00:00[Nowhere/Town]"}', "Nowhere/Town"),
        ('{"$datetime":"2026-01-01T00:00:00[../../etc/passwd]"}', "cannot be read"),
        ('{"$datetime":"2026-01-01T00:00:00[a][b]"}', "cannot be read"),
        ("", "damaged"),
        ("{", "damaged"),
        ("1 2", "damaged"),
        ("NaN", "damaged"),
        ("[Infinity]", "damaged"),
        ("[" * 100_000, "damaged"),
        ("9" * 5_000, "damaged"),
    ],
)
def test_a_damaged_or_newer_text_is_refused(text, match):
    with pytest.raises(InvalidPayload, match=match):
        codec.decode(text)


# Digests


def test_the_order_of_keys_does_not_matter_to_the_digest():
    assert codec.digest({"a": 1, "b": ({"x": 1, "y": 2},)}) == codec.digest({"b": ({"y": 2, "x": 1},), "a": 1})


@pytest.mark.parametrize(
    "values",
    [
        [1, True, 1.0, Decimal(1), "1", (1,), [1], {1}, frozenset({1}), b"1", LoudStr("one")],
        [0, False, None, "", [], {}, (), set(), 0.0],
        [
            date(2026, 1, 1),
            datetime(2026, 1, 1),  # noqa: DTZ001
            datetime(2026, 1, 1, tzinfo=UTC),
            "2026-01-01",
        ],
        [{"$date": "2026-01-01"}, date(2026, 1, 1)],
        [{"a": 1}, {"a": True}, {"a": "1"}, {"b": 1}],
    ],
)
def test_values_of_unequal_types_have_unequal_digests(values):
    assert len({codec.digest(value) for value in values}) == len(values)


@UNHURRIED
@given(VALUES)
def test_a_digest_outlives_storage(value):
    assert codec.digest(codec.decode(codec.encode(value))) == codec.digest(value)


@UNHURRIED
@given(VALUES)
def test_as_stored_is_what_decode_returns(value):
    assert shape(codec.as_stored(value)) == shape(codec.decode(codec.encode(value)))


@pytest.mark.parametrize("value", [1, True, False, None, 10**19 - 1, 10**30], ids=str)
def test_a_word_is_read_the_same_each_time(value: object) -> None:
    found = [codec.decode(json.dumps(value)) for _ in range(2)]

    assert found == [value, value]
    assert {type(each) for each in found} == {type(value)}


@pytest.mark.parametrize("text", ["nul", "NaN", "Infinity", "01", "\u0661", "x" * 30])
def test_a_word_that_is_none_is_refused_each_time(text: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidPayload, match="cannot be read"):
            codec.decode(text)
