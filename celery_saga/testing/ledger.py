"""Compares what a user's ledger said before and after a run."""

from __future__ import annotations

from collections.abc import Mapping, Set
from copy import deepcopy
from decimal import Decimal
from typing import Any

__all__ = ["change", "is_as", "read"]


def read(ledger: Any) -> Any:
    """What it says now, kept from changing later; None where there is none."""
    return None if ledger is None else deepcopy(ledger())


def is_as(before: Any, after: Any, reference: tuple[Any, Any]) -> bool:
    """Whether a run left what the reference run left: the same ledger, or one that changed in the same way.

    Args:
        reference: what the ledger said before and after the reference run.
    """
    return bool(after == reference[1]) or bool(change(before, after) == change(*reference))


def change(before: Any, after: Any) -> Any:
    """What came: a difference of numbers, of each value of a mapping or tuple, of sets, or the end of a longer list.

    Where nothing of this applies, both as they are.
    """
    if _is_number(before) and _is_number(after):
        return after - before
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        nothing = object()
        pairs = {key: (before.get(key, nothing), after.get(key, nothing)) for key in {*before, *after}}
        found = {key: _of_key(old, new, nothing) for key, (old, new) in pairs.items()}
        return {key: each for key, each in found.items() if each}
    if isinstance(before, Set) and isinstance(after, Set):
        return (frozenset(after - before), frozenset(before - after))
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        if list(after[: len(before)]) == list(before):
            return ("added", list(after[len(before) :]))
        if len(before) == len(after):
            return [change(old, new) for old, new in zip(before, after, strict=True)]
    return (before, after)


def _of_key(old: Any, new: Any, nothing: object) -> Any:
    if old is nothing:
        return new if _is_number(new) else ("new", new)
    if new is nothing:
        return -old if _is_number(old) else ("gone", old)
    return None if old == new else change(old, new)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
