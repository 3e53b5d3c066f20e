"""How the tags of stored texts are read back into values."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from celery_saga.errors import InvalidPayload

# ISO 8601, then as in RFC 9557 a zone's name and a further mark, each in brackets.
_STAMP = re.compile(r"([^\[\]]+)(?:\[([^\[\]=]+)\])?(\[fold=1\])?")
_FRACTION = re.compile(r"([+-])00:00:00\.(\d{6})$")


def _stamp(text: str) -> tuple[str, dict[str, Any]]:
    match = _STAMP.fullmatch(text)
    if match is None:
        raise ValueError("no time stamp")
    iso, zone, fold = match.groups()
    changes: dict[str, Any] = {"fold": 1} if fold else {}
    if zone:
        # The wall clock's time was stored; the offset beside it is for human readers.
        changes["tzinfo"] = ZoneInfo(zone)
    elif fraction := _FRACTION.search(iso):
        # fromisoformat takes an offset of less than a second for UTC.
        sign = -1 if fraction[1] == "-" else 1
        changes["tzinfo"] = timezone(timedelta(microseconds=sign * int(fraction[2])))
    return iso, changes


def _datetime(text: str) -> datetime:
    iso, changes = _stamp(text)
    return datetime.fromisoformat(iso).replace(**changes)


def _time(text: str) -> time:
    iso, changes = _stamp(text)
    return time.fromisoformat(iso).replace(**changes)


def _timedelta(parts: list[int]) -> timedelta:
    days, seconds, microseconds = parts
    return timedelta(days=days, seconds=seconds, microseconds=microseconds)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _int(text: str) -> int:
    return int(text, 16)


# Version 1. A tag's meaning never changes; tests/core/codec_v1.json holds texts of it.
_TAGS: dict[str, Callable[[Any], object]] = {
    "$bytes": _bytes,
    "$date": date.fromisoformat,
    "$datetime": _datetime,
    "$decimal": Decimal,
    "$frozenset": frozenset,
    "$int": _int,
    "$set": set,
    "$time": _time,
    "$timedelta": _timedelta,
    "$tuple": tuple,
    "$uuid": UUID,
}


def read_object(found: dict[str, Any]) -> object:
    """The value that a JSON object stands for, its members being read already.

    Raises:
        InvalidPayload: a tag is unknown, or what follows it is not of its form.
    """
    if not any(key[:1] == "$" for key in found):
        return found
    for key, content in found.items():
        if key[:1] == "$" and key[:2] != "$$":
            if len(found) == 1:
                return _read_tag(key, content)
            raise InvalidPayload(
                f"a stored value has {key!r} beside other keys, and tags stand alone; "
                "it was left as it is. The text is damaged, or was not written by celery_saga."
            )
    return {key[1:] if key[:2] == "$$" else key: value for key, value in found.items()}


def _read_tag(tag: str, content: object) -> object:
    read = _TAGS.get(tag)
    if read is None:
        raise InvalidPayload(
            f"a stored value has the tag {tag!r}, which this version of celery_saga does not "
            "know; it was left as it is. A newer version wrote it: run that version here too."
        )
    try:
        return read(content)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise InvalidPayload(
            f"a stored value with the tag {tag!r} cannot be read: "
            f"{type(error).__name__}: {error}; it was left as it is."
        ) from error
