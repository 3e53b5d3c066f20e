"""What stands in a record for a stored text that cannot be read now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from celery_saga.errors import PayloadUnreadable

__all__ = ["InClear", "Unreadable", "opened", "unread"]


class Unreadable(str):
    """Written back as it is stored; whoever wants to know what it says gets an error.

    Args:
        raw: the text as it is stored.
        why: what is wrong, in a few words that hold nothing of the text.
        is_away: nothing is wrong: it is stored elsewhere, and was not fetched.
    """

    raw: str
    why: str
    is_away: bool

    def __new__(cls, raw: str, why: str, *, is_away: bool = False) -> Unreadable:
        """To people it shows why it cannot be read."""
        made = super().__new__(cls, f"({why})")
        made.raw, made.why, made.is_away = raw, why, is_away
        return made


class InClear(str):
    """A text that holds nothing of a user's, and is stored as it is: a codec whose key is wrong must not seal it."""


def opened(text: str) -> str:
    """The text itself.

    Raises:
        PayloadUnreadable: it cannot be read now.
    """
    if isinstance(text, Unreadable):
        raise PayloadUnreadable(f"a stored value cannot be read: {text.why}; it was left as it is")
    return text


def unread(records: Iterable[Any]) -> Unreadable | None:
    """The first text of these records that cannot be read, or was not fetched; None: all are as they were written."""
    for record in records:
        kind = type(record)
        if kind not in _TEXTS:
            _TEXTS[kind] = tuple(x.name for x in fields(kind) if x.name.endswith(("_text", "_digest")))
        for name in _TEXTS[kind]:
            text = getattr(record, name)
            if type(text) is Unreadable:
                return text
    return None


_TEXTS: dict[type, tuple[str, ...]] = {}  # the fields that may be such, of each kind of record
