"""Digests of arguments: remembered or not, they tell the same apart."""

from __future__ import annotations

from typing import Any

import pytest

from celery_saga.core import codec
from celery_saga.definition.calls import digest_args
from celery_saga.errors import InvalidPayload

LIKE_ONE: list[Any] = [1, True, "1", 1.0, [1], None]


def test_arguments_that_are_equal_but_of_other_types_have_other_digests() -> None:
    found = [digest_args([[value], {}], "shop.charge") for value in LIKE_ONE]

    assert len(set(found)) == len(LIKE_ONE)


@pytest.mark.parametrize("value", [*LIKE_ONE, "x" * 300, 10**30, {"a": 1}], ids=lambda value: repr(value)[:12])
def test_a_digest_is_that_of_the_codec_each_time_it_is_asked_for(value: Any) -> None:
    args = [["o1", value], {"cents": value}]

    assert [digest_args(args, "shop.charge") for _ in range(2)] == [codec.digest(args)] * 2


def test_what_cannot_be_stored_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidPayload, match=r"args\[0\]"):
            digest_args([["\ud800"], {}], "shop.charge")
