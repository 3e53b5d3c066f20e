"""Decides a choice: compares what stands at a path with values, and says which rule holds first."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from celery_saga.definition.graph import paths

__all__ = ["Incomparable", "chosen"]


class Incomparable(TypeError):
    """Two values have no order."""


def chosen(rules: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> str:
    """The target of the first rule that holds; the else, which is the last, always does.

    Raises:
        Missing: nothing stands at a path.
        Incomparable: `lt` or `gt` is asked of values that have no order, as a text and a number.
    """
    return next(str(rule.get("to", rule.get("else"))) for rule in rules if "else" in rule or _holds(rule, known))


def _holds(rule: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    value = paths.read(rule["path"], known)
    return all(
        test(value, paths.resolve(rule[word], known), rule["path"]) for word, test in _TESTS.items() if word in rule
    )


def _is(value: Any, other: Any, _path: str = "") -> bool:
    # In JSON true is no 1.
    if isinstance(value, bool) is not isinstance(other, bool):
        return False
    left, right = _alike(value, other)
    return bool(left == right)


def _is_in(value: Any, others: list[Any], _path: str) -> bool:
    return any(_is(value, other) for other in others)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any, str], bool]:
    def test(value: Any, other: Any, path: str) -> bool:
        left, right = _alike(value, other)
        kinds = next((kinds for kinds in _ORDERED if isinstance(left, kinds) and isinstance(right, kinds)), None)
        if kinds is None or isinstance(left, bool) or isinstance(right, bool):
            raise Incomparable(f"{path} is {value!r}, which is neither less nor greater than {other!r}")
        try:
            return compare(left, right)
        except TypeError as error:  # as of a datetime with a zone and one without
            raise Incomparable(f"{path} is {value!r}, and {other!r}: {error}") from None

    return test


def _alike(value: Any, other: Any) -> tuple[Any, Any]:
    """Both, so that they compare as people expect: a decimal with a float of JSON, an instant with its text."""
    return _as(value, other), _as(other, value)


def _as(value: Any, other: Any) -> Any:
    if isinstance(other, Decimal) and isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(other, date | time) and isinstance(value, str):
        try:
            return type(other).fromisoformat(value)
        except ValueError:
            return value
    return value


_ORDERED = ((int, float, Decimal), (str,), (datetime,), (date,), (time,), (timedelta,))
_TESTS: dict[str, Callable[[Any, Any, str], bool]] = {
    "eq": _is,
    "lt": _ordered(operator.lt),
    "gt": _ordered(operator.gt),
    "in": _is_in,
}
