"""Which texts every database takes as they are."""

from __future__ import annotations

import re

__all__ = ["is_storable"]

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether it has no NUL and no half of a surrogate pair in it."""
    return _UNSTORABLE.search(text) is None
