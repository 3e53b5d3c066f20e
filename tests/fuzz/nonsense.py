"""Strategies for what nobody should send, and what only looks like something that one may."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

AWKWARD = ["", "\x00", "a\x00b", "\ud800", "x" * 300, "é" * 300, "a!undo", "../..", "' OR 1=1 --", "%s", "{}"]
texts = st.one_of(st.sampled_from(AWKWARD), st.text(max_size=20))
numbers = st.one_of(
    st.integers(-3, 3), st.sampled_from([2**31, 2**63, 2**64, -(2**63) - 1, 10**400]), st.floats(allow_nan=False)
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
"""Anything that JSON can carry."""


def mangled(good: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Something else altogether; or this, with some of it missing, of another kind, or beside the point."""
    parts = {name: st.one_of(st.just(value), st.just(value), values) for name, value in good.items()}
    like_it = st.fixed_dictionaries({}, optional=parts)
    with_more = st.builds(lambda it, more: {**more, **it}, like_it, st.dictionaries(texts, values, max_size=2))
    return st.one_of(like_it, like_it, with_more, st.fixed_dictionaries(parts), values)


@st.composite
def damaged(draw: st.DrawFn, good: st.SearchStrategy[Any]) -> Any:
    """One of these with up to three places changed, taken out, or added to."""
    whole = copy.deepcopy(draw(good))
    for _ in range(draw(st.integers(1, 3))):
        place, key = draw(st.sampled_from(list(_places([whole]))))
        how = draw(st.sampled_from(["change", "change", "take out", "add"]))
        if how == "take out" and place[key] is not whole:
            del place[key]
        elif how == "add" and isinstance(place[key], dict):
            place[key][draw(texts)] = draw(values)
        elif place[key] is whole:
            whole = place[key] = draw(values) if draw(st.integers(0, 9)) == 0 else whole
        else:
            place[key] = draw(values)
    return whole


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def fuzz(examples: int, strategy: st.SearchStrategy[Any], check: Callable[[Any], object]) -> None:
    """Check so many of them, always the same ones."""
    limits = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @limits
    @given(strategy)
    def one(value: Any) -> None:
        check(value)

    one()
