"""Which names, words and numbers a definition may use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from celery_saga.core.asked import MAX_NAME, has_control, is_name, shown
from celery_saga.errors import DefinitionError

__all__ = ["MAX_NAME", "MAX_PRIORITY", "key_base"]
__all__ += ["check_dispatch", "check_flag", "check_int", "check_name", "check_word", "has_control"]
__all__ += ["Again", "is_explicit"]

DISPATCHES = ("broker", "inline", "auto")
MAX_PRIORITY = 2_097_151
MAX_VERSION = 2_147_483_647

_RESERVED = re.compile(r"[!#/\[\]\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Again(str):
    """A name that may come again in its scope, with `#2`, `#3` behind it, as names do that nobody gave."""

    __slots__ = ()


def is_explicit(name: str | None) -> bool:
    """Whether somebody gave this name, and means one thing by it."""
    return name is not None and not isinstance(name, Again)


def check_name(name: object, what: str) -> str:
    """The name, if it is 1 to 200 characters, none of them a control character.

    Raises:
        DefinitionError: it is not; nothing was registered.
    """
    if is_name(name):
        return name
    raise DefinitionError(
        f"{what} must be text of 1 to {MAX_NAME} characters, none of them a control character, got {shown(name)}; "
        "nothing was registered."
    )


def check_word(word: str | None, what: str, allowed: Iterable[str]) -> str | None:
    """The word, if it is one of the allowed; None passes.

    Raises:
        DefinitionError: it is another; nothing was registered.
    """
    words = tuple(allowed)
    if word is not None and (not isinstance(word, str) or word not in words):
        raise DefinitionError(
            f"{what} must be one of {', '.join(map(repr, words))}, got {shown(word)}; nothing was registered."
        )
    return word


def check_dispatch(word: str | None, what: str) -> str | None:
    """How steps are executed: `broker`, `inline` or `auto`; None passes.

    Raises:
        DefinitionError: another word; nothing was registered.
    """
    return check_word(word, what, DISPATCHES)


def check_int(value: object, what: str, low: int, high: int) -> int:
    """The whole number, if it is from `low` to `high`.

    Raises:
        DefinitionError: it is not; nothing was written.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise DefinitionError(
            f"{what} must be a whole number from {low} to {high}, got {shown(value)}; nothing was written."
        )
    return value


def check_flag(value: object, what: str) -> bool:
    """True or False.

    Raises:
        DefinitionError: it is something else; nothing was written.
    """
    if not isinstance(value, bool):
        raise DefinitionError(f"{what} must be True or False, got {shown(value)}; nothing was written.")
    return value


@lru_cache(maxsize=1024)
def key_base(name: str) -> str:
    """What step keys are made of, for a task or signal name: its last part, without what keys reserve."""
    return _RESERVED.sub("_", name.rpartition(".")[2] or name)[:MAX_NAME]
