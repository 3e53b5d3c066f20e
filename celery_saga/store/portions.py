"""Long lists in portions that one statement can take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

_MOST = 500


def portions(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """The rows in their order, at most 500 at a time; nothing for none."""
    for first in range(0, len(rows), _MOST):
        yield rows[first : first + _MOST]
