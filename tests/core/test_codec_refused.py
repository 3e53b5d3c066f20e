"""What would not come back the same is refused, with the place and the remedy."""

from __future__ import annotations

import collections
import math
import sys
import types
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import pytest

from celery_saga.core import codec
from celery_saga.errors import InvalidPayload


@dataclass(frozen=True)
class Item:
    price: Decimal


@dataclass
class Node:
    name: str
    next: Any = None


class Row:
    _meta = "options"
    pk = 7


class Mapped:
    __mapper__ = "mapper"


class OddZone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(0)


REFUSED = [
    (float("nan"), "order", "not a number"),
    (float("inf"), "order", "not a number"),
    ({"items": [1, 2, 3, {"price": -math.inf}]}, "order.items[3].price", "Pass None"),
    (Decimal("NaN"), "order", "not a number"),
    (Decimal("sNaN"), "order", "not a number"),
    (Decimal("-Infinity"), "order", "not a number"),
    ({"a": {3: 1}}, "order.a", r"key 3 is of type int.*str keys"),
    ({"a": {None: 1}}, "order.a", "keys must be str"),
    ({"a": {b"k": 1}}, "order.a", "keys must be str"),
    ({"a": ({(1, 2): 1},)}, "order.a[0]", "keys must be str"),
    ({"a": "x\ud800"}, "order.a", r"lone surrogate '\\ud800' at index 1"),
    ({"a": ("\ud83d\ude00",)}, "order.a[0]", "lone surrogate"),
    ({"\udc00": 1}, r"order['\udc00']", "lone surrogate"),
    ({"a": {"__type__": "x", "__value__": 1}}, "order.a.__type__", "Rename the key"),
    ({"a": [Row()]}, "order.a[0]", r"Pass order\.a\[0\]\.pk"),
    (Mapped(), "order", "primary key"),
    ((x for x in [1]), "order", r"a generator cannot be stored.*Pass list\(order\)"),
    (iter([1]), "order", "Pass list"),
    (range(3), "order", "Pass list"),
    (collections.deque([1]), "order", "Pass list"),
    (types.MappingProxyType({}), "order", "Pass dict"),
    (bytearray(b"x"), "order", "Pass bytes"),
    (memoryview(b"x"), "order", "Pass bytes"),
    (object(), "order", "an object cannot be stored"),
    (ValueError("x"), "order", "ValueError cannot be stored"),
    (Node, "order", "type cannot be stored"),
    (len, "order", "cannot be stored"),
    (1j, "order", "complex cannot be stored"),
    ({"at": datetime(2026, 1, 1, tzinfo=OddZone())}, "order.at", "OddZone.*zoneinfo"),
    ({"at": time(1, tzinfo=OddZone())}, "order.at", "zoneinfo"),
    ({Item(Decimal(1))}, "order{}", "in a set.*Pass a list"),
    ({"two words": [object()]}, "order['two words'][0]", "cannot be stored"),
    (Node("a", [object()]), "order.next[0]", "cannot be stored"),
]


@pytest.mark.parametrize(("value", "path", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_would_not_come_back_is_refused_with_place_and_remedy(value, path, text):
    with pytest.raises(InvalidPayload, match=text) as caught:
        codec.encode(value, what="order")

    assert caught.value.path == path
    assert str(caught.value).startswith(path)
    assert "nothing was written" in str(caught.value)


@pytest.mark.parametrize(("value", "path", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_has_no_digest(value, path, text):
    with pytest.raises(InvalidPayload):
        codec.digest(value)


def ring_of_lists() -> object:
    ring: list[Any] = []
    ring += [ring, ring]
    return ring


def ring_of_mappings() -> object:
    ring: dict[str, Any] = {}
    ring["a"] = (ring,)
    return ring


def ring_of_dataclasses() -> object:
    node = Node("a")
    node.next = {"b": node}
    return node


@pytest.mark.parametrize("make", [ring_of_lists, ring_of_mappings, ring_of_dataclasses])
def test_a_cycle_is_refused(make):
    with pytest.raises(InvalidPayload, match="contains itself"):
        codec.encode(make())


def test_the_same_value_twice_is_no_cycle():
    shared = (1, [2])

    assert codec.decode(codec.encode([shared, shared])) == [(1, [2]), (1, [2])]


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: (x,)], ids=["list", "dict", "tuple"])
def test_a_value_nested_too_deep_is_refused_shortly(wrap):
    value: Any = 1
    for _ in range(50_000):
        value = wrap(value)
    with pytest.raises(InvalidPayload, match="more than 100 deep") as caught:
        codec.encode(value)

    assert len(str(caught.value)) < 500
    while isinstance(value, list | dict | tuple):  # else freeing it would need a deep stack
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]


def test_a_value_as_deep_as_allowed_comes_back():
    value: Any = 1
    for _ in range(100):
        value = (value,)

    assert codec.decode(codec.encode(value)) == value


def test_a_stack_that_is_nearly_used_up_gives_our_error():
    def sink(levels: int) -> str:
        return sink(levels - 1) if levels else codec.encode(nested)

    nested: Any = 1
    for _ in range(90):
        nested = (nested,)
    depth = sys.getrecursionlimit() - 120
    with pytest.raises(InvalidPayload, match="nested too deep"):
        sink(depth)
