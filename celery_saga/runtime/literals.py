"""Short texts for people and searches: a mapping as a Python literal that stays one however long its values are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MOST_BYTES", "WHOLE", "literal"]

MOST_BYTES = 1000
"""Longest literal, in bytes of UTF-8."""

WHOLE = "saga_run"
"""The value that is searched for, and never shortened."""

_ROOMS = (400, 200, 100, 50, 20)


def literal(values: Mapping[str, Any]) -> str:
    """The mapping as a Python literal of at most 1000 bytes; what is too long in it becomes text with `...` behind.

    Args:
        values: texts, numbers, None, and lists and mappings of such; `saga_run` in it an id, which is left whole.
    """
    whole = repr(dict(values))
    if _fits(whole):
        return whole
    for room in _ROOMS:
        shorter = repr({key: value if key == WHOLE else _cut(value, room) for key, value in values.items()})
        if _fits(shorter):
            return shorter
    return repr({key: value for key, value in values.items() if key == WHOLE})


def _cut(value: Any, room: int) -> Any:
    if value is None or isinstance(value, (bool, float)):
        return value
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= room else text[:room] + "..."


def _fits(text: str) -> bool:
    return len(text.encode(errors="replace")) <= MOST_BYTES
