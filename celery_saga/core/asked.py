"""What callers may say, one check for each kind: flags, texts, whole numbers, instants, step keys, why and who."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from types import FunctionType
from typing import TypeGuard, TypeVar

from celery_saga.core.storable import is_storable
from celery_saga.errors import InvalidPayload

__all__ = ["MAX_NAME", "MAX_PROSE", "MAX_SEQ", "check_told", "flag", "has_control", "is_name", "known_as", "refused"]
__all__ += ["shown", "step_key", "text", "utc", "whole"]

MAX_NAME = 200
"""Longest name of a saga, signal, lane or tag, in characters."""
MAX_PROSE = 16_000
"""Longest `reason=` and `by=`, in characters: what each database can store."""
MAX_SEQ = 2**63 - 1

_MAX_SHOWN = 120
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

C = TypeVar("C", bound=type)


def shown(value: object) -> str:
    """The value as a message shows it: its repr, cut where that is long."""
    try:
        whole_repr = repr(value)
    except Exception:  # noqa: BLE001 - the caller's own object; what is said of it must not fail
        return f"an object of {type(value).__name__}"
    if len(whole_repr) <= _MAX_SHOWN:
        return whole_repr
    return f"{whole_repr[:_MAX_SHOWN]}... ({len(whole_repr)} characters)"


def has_control(value: str) -> bool:
    """Whether a control character or a lone surrogate is in the text."""
    return _CONTROL.search(value) is not None


def is_name(value: object) -> TypeGuard[str]:
    """Whether it is text of 1 to 200 characters that is not all blank, none of them a control character."""
    return isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_NAME and not has_control(value)


def refused(call: str, name: str, rule: str, value: object, left: str) -> InvalidPayload:
    """The refusal of an argument of a call; `left` says what was not done."""
    return InvalidPayload(f"{call}: {name}= {rule}, got {shown(value)}; {left}.", path=name)


def flag(call: str, name: str, value: object, left: str = "nothing was changed") -> bool:
    """True or False, and nothing that is only like them: what is empty by mistake must not mean False.

    Raises:
        InvalidPayload: it is something else.
    """
    if isinstance(value, bool):
        return value
    raise refused(call, name, "must be True or False", value, left)


def text(call: str, name: str, value: object, left: str = "nothing was read") -> str:
    """Text that a database can be asked for.

    Raises:
        InvalidPayload: it is something else, or has a NUL or half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise refused(call, name, "must be text", value, left)
    if not is_storable(value):
        raise refused(call, name, "must be text without NUL and lone surrogates", value, left)
    return value


def step_key(call: str, value: object, name: str = "step") -> str:
    """The key of a step; whether there is one is seen elsewhere.

    Raises:
        InvalidPayload: it can be none.
    """
    key = text(call, name, value, "nothing was changed")
    if not key:
        raise refused(call, name, "must be the key of a step", value, "nothing was changed")
    return key


def check_told(call: str, *, reason: object, by: object, left: str = "nothing was changed") -> None:
    """Refuse what cannot be kept as why and who: no text, one with a NUL, or a longer one than 16,000 characters.

    Raises:
        InvalidPayload: naming which of the two.
    """
    for name, value in (("reason", reason), ("by", by)):
        if value is not None and len(text(call, name, value, left)) > MAX_PROSE:
            raise refused(call, name, f"must be text of at most {MAX_PROSE} characters", value, left)


def whole(call: str, name: str, value: object, low: int, high: int, left: str = "nothing was read") -> int:
    """A whole number from `low` to `high`; True is none.

    Raises:
        InvalidPayload: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refused(call, name, f"must be a whole number from {low} to {high}", value, left)
    return value


def utc(value: object) -> datetime:
    """An aware instant in UTC.

    Raises:
        ValueError: it is none, or is before year 1 or after year 9999 in UTC; the text is the rule.
    """
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ValueError("must be an aware datetime, like datetime(2026, 1, 31, tzinfo=UTC)")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie in the years 1 to 9999 also in UTC") from None


def known_as(cls: C) -> C:
    """A class made of mixins, whose methods call themselves by its name, as in the errors for a wrong keyword."""
    for base in cls.__mro__[1:]:
        if base.__module__.startswith("celery_saga."):
            for name, found in vars(base).items():
                function: Callable[..., object] | None = found if isinstance(found, FunctionType) else None
                if function is not None and not name.startswith("__"):
                    function.__qualname__ = f"{cls.__name__}.{name}"
    return cls
