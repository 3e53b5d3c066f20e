"""The text that values are stored as: JSON where it suffices, tagged JSON where it does not.

A value JSON cannot express becomes an object with one key, a tag: `{"$date": "2026-11-29"}`.
A mapping of the user's with a key that begins with "$" has one more "$" put before each such
key, so no value of the user's is ever taken for a tag. Texts carry no version mark: they are
version 1 as long as their tags are. A tag's meaning never changes; a change takes a new tag,
which older code refuses by name.
"""

from __future__ import annotations

import hashlib
import json
import math
from functools import lru_cache
from typing import Any, NoReturn

from celery_saga.core.codec_read import read_object
from celery_saga.core.codec_write import (
    BIG_INT_BITS,
    MAX_DEPTH,
    TooManyValues,
    Writer,
    canonical,
)
from celery_saga.core.unreadable import Unreadable, opened
from celery_saga.errors import InvalidPayload, PayloadTooLarge

_BIG = 1 << BIG_INT_BITS
_ATOMS = frozenset({str, bool, type(None)})

# No check for cycles: what is dumped was walked before.
_dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_load_plain = json.JSONDecoder(parse_constant=_refuse_constant).decode
_load_tagged = json.JSONDecoder(parse_constant=_refuse_constant, object_hook=read_object).decode
_SHORT = 20
_load_word = lru_cache(maxsize=4096)(_load_plain)
"""Of short texts that can only be a number, a truth value or null: each pass of a body reads the same ones again."""


def encode(value: object, *, limit_bytes: int | None = None, what: str = "value") -> str:
    """The text of a value, from which `decode` makes an equal one.

    Kept with value and type: None, bool, int of any size, float, str, list, dict, tuple, set,
    frozenset, bytes, Decimal, UUID, date, time, datetime (zone name and fold included) and
    timedelta. Subclasses are written as those. Dataclasses and pydantic models are written as
    mappings, Enum members as their values; only an annotation brings them back.

    Args:
        value: what to store.
        limit_bytes: largest size of the text in bytes of UTF-8; None for no limit.
        what: how errors call the value, the start of the path; "" when the value is a
            mapping whose keys are the names to start with.
    Raises:
        InvalidPayload: the value, or one inside it, would not come back the same. The
            error's `path` says where; nothing was written.
        PayloadTooLarge: the text is longer than `limit_bytes`; nothing was written.
    """
    try:
        plain = _is_plain(value, MAX_DEPTH, [limit_bytes] if limit_bytes is not None else None)
        tree = value if plain else Writer(what, limit_bytes).write(value)
        text = _dump(tree)
        size_bytes = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        # Only the plain way gets here, which looks into no string; the other names the place.
        Writer(what, limit_bytes).write(value)
        raise
    except TooManyValues as error:
        raise _too_large(what, f"more than {error.count}", error.count, error.limit) from None
    except RecursionError:
        raise InvalidPayload(
            f"{what or 'value'}: is nested too deep to be stored from here; nothing was written. Pass a flatter value.",
            path=what,
        ) from None
    if limit_bytes is not None and size_bytes > limit_bytes:
        raise _too_large(what, str(size_bytes), size_bytes, limit_bytes)
    return text


def decode(text: str) -> Any:
    """The value that `encode` made the text from.

    Raises:
        InvalidPayload: the text is damaged, or has a tag that this version does not know.
        PayloadUnreadable: it cannot be read now.
    """
    if type(text) is Unreadable:
        opened(text)
    try:
        if len(text) <= _SHORT and text.isalnum():
            return _load_word(text)
        # Every tag is a key, so a text without this cannot have one.
        return _load_tagged(text) if '"$' in text else _load_plain(text)
    except InvalidPayload:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(
            f"a stored value cannot be read: {error}; it was left as it is. "
            "The text is damaged, or was not written by celery_saga."
        ) from error


def digest(value: object) -> str:
    """SHA-256, in hex, of a value: equal for equal values of equal types.

    The order of a mapping's keys does not matter. 1, True, 1.0 and Decimal(1) all differ,
    as do a list and a tuple.

    Raises:
        InvalidPayload: as `encode`.
    """
    tree = value if _is_plain(value, MAX_DEPTH, None) else Writer("value", None).write(value)
    try:
        data = canonical(tree).encode()
    except UnicodeEncodeError:
        Writer("value", None).write(value)
        raise
    return hashlib.sha256(data).hexdigest()


def as_stored(value: object, *, what: str = "value") -> Any:
    """What `decode` will return for this value: itself when it is plain JSON already.

    Raises:
        InvalidPayload: as `encode`.
    """
    if _is_plain(value, MAX_DEPTH, None):
        return value
    return decode(encode(value, what=what))


def _is_plain(value: object, depth: int, budget: list[int] | None) -> bool:
    """Whether json writes the value, and reads it back, as it is; strings are not looked into.

    `budget` holds how many more values may come: a list that is in itself many times over,
    though never in a cycle, would else be walked for ever.
    """
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is int:
        return -_BIG < value < _BIG  # type: ignore[operator]
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]
    if depth == 0 or (kind is not dict and kind is not list):
        return False
    if budget is not None:
        budget[0] -= len(value)  # type: ignore[arg-type]
        if budget[0] < 0:
            return False
    if kind is list:
        return all(
            type(item) in _ATOMS or _is_plain(item, depth - 1, budget)
            for item in value  # type: ignore[attr-defined]
        )
    return all(
        type(key) is str
        and key[:1] != "$"
        and key != "__type__"
        and (type(item) in _ATOMS or _is_plain(item, depth - 1, budget))
        for key, item in value.items()  # type: ignore[attr-defined]
    )


def _too_large(what: str, size: str, size_bytes: int, limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"{what or 'the value'} is {size} bytes as text and the limit is {limit_bytes} bytes; "
        "nothing was written. Store the data elsewhere and pass a reference to it, or raise "
        "saga_max_payload_bytes.",
        size_bytes=size_bytes,
        limit_bytes=limit_bytes,
    )
