"""Keys of runs, and the run ids that follow from them."""

from __future__ import annotations

import inspect
import os
import re
import string
import uuid
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from time import time_ns
from typing import Any

from celery_saga.core.asked import shown
from celery_saga.definition.names import has_control
from celery_saga.errors import DefinitionError, InvalidPayload

__all__ = [
    "MAX_KEY",
    "KeyOf",
    "called",
    "check_key",
    "key_function",
    "new_run_id",
    "run_id_of",
    "run_id_of_task",
    "template",
]

MAX_KEY = 255
"""Longest key of a run, in characters."""

KeyOf = Callable[[Mapping[str, Any]], str]
"""Gives the key for arguments by parameter name, defaults included."""

_NAMESPACE = uuid.UUID("6f5f0b52-3b0f-5c0e-9a39-8c1c6b0f7a11")
_FIELD = re.compile(r"([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*|\[[^\[\]]+\])*)")
_PART = re.compile(r"\.([A-Za-z_]\w*)|\[([^\[\]]+)\]")
_SCALARS = (str, int, float, Decimal, uuid.UUID, date, time)


def new_run_id() -> str:
    """A fresh id for a run without a key: UUID version 7 (RFC 9562, 5.7).

    Rows of runs that start at one time are neighbours in every index that begins with the run's id, whatever old runs
    there are: a start touches few pages.
    """
    ms, drawn = time_ns() // 1_000_000, int.from_bytes(os.urandom(10))
    high, low = drawn >> 68, drawn & (1 << 62) - 1
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | high << 64 | 2 << 62 | low))


def run_id_of(saga: str, key: str) -> str:
    """The id of the run of this saga and key: the same in every process, so that a second start finds the first."""
    return str(uuid.uuid5(_NAMESPACE, f"{saga}\n{key}"))


def run_id_of_task(saga: str, task_id: str) -> str:
    """The id of the run that a Celery task with this id starts; never that of a key, which has no line break."""
    return str(uuid.uuid5(_NAMESPACE, f"{saga}\ntask\n{task_id}"))


def check_key(key: object, saga: str) -> str:
    """The key, if it can be one.

    Raises:
        InvalidPayload: no text, empty, longer than 255 characters or with a control character; nothing was written.
    """
    if isinstance(key, str) and key.strip() and len(key) <= MAX_KEY and not has_control(key):
        return str(key)
    told = f"text of {len(key)} characters" if isinstance(key, str) and len(key) > MAX_KEY else shown(key)
    raise InvalidPayload(
        f"saga {saga!r}: a key must be text of 1 to {MAX_KEY} characters without control characters, got {told}; "
        "nothing was written.",
        path="key",
    )


def template(text: str, parameters: Mapping[str, object], saga: str, *, what: str = "key") -> KeyOf:
    """A key like `{order.id}`: names of parameters, attributes and items; nothing is called.

    Args:
        parameters: the body's parameters, by name.
        what: the option that it is given to.
    Raises:
        DefinitionError: the template cannot be read, names no parameter, or reaches for a private name.
    """
    where = f"saga {saga!r}, {what}={text!r}"
    parts = _parsed(text, parameters, where, what)

    def key_of(arguments: Mapping[str, Any]) -> str:
        return "".join(part if isinstance(part, str) else _value(part, arguments, where, what) for part in parts)

    return key_of


def key_function(key: str | Callable[..., str] | None, signature: inspect.Signature, saga: str) -> KeyOf | None:
    """What gives the key of a run of this saga; None: its runs have none of their own.

    Args:
        key: a template, or a function of the arguments.
        signature: of the body, without the run.
    Raises:
        DefinitionError: neither; or as of `template`. Nothing was registered.
    """
    if key is None:
        return None
    if isinstance(key, str):
        return template(key, signature.parameters, saga)
    if not callable(key):
        raise DefinitionError(
            f"saga {saga!r}: key= takes a template like '{{order.id}}' or a function of the arguments, got "
            f"{key!r}; nothing was registered."
        )
    return called(key, signature)


def called(function: Callable[..., str], signature: inspect.Signature) -> KeyOf:
    """What a function of the user's gives for arguments; what it raises is the user's own error, and stays it."""

    def value_of(arguments: Mapping[str, Any]) -> str:
        call = inspect.BoundArguments(signature, dict(arguments))
        return function(*call.args, **call.kwargs)

    return value_of


def _parsed(text: str, parameters: Mapping[str, object], where: str, what: str) -> list[str | list[str | int]]:
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        raise _bad(where, str(error)) from None
    parts: list[str | list[str | int]] = []
    for literal, field, spec, conversion in pieces:
        if literal:
            parts.append(literal)
        if field is None:
            continue
        if spec or conversion:
            raise _bad(where, f"{{{field}}} has a format or conversion; give {what}= a function for that")
        parts.append(_path(field, where))
        if parts[-1][0] not in parameters:
            takes = ", ".join(parameters) or "no parameter"
            raise _bad(where, f"{parts[-1][0]!r} is no parameter of the body, which takes {takes}")
    if not any(isinstance(part, list) for part in parts):
        raise _bad(where, f"it names no parameter, so every run would be the same; write {what}='{{order.id}}'")
    return parts


def _path(field: str, where: str) -> list[str | int]:
    matched = _FIELD.fullmatch(field)
    if matched is None:
        raise _bad(where, f"{{{field}}} is not a parameter with attributes or items, like {{order.id}} or {{row[0]}}")
    path: list[str | int] = [matched[1]]
    for attribute, item in _PART.findall(matched[2]):
        if attribute.startswith("_"):
            raise _bad(where, f"{attribute!r} is a private name")
        # A leading dot tells an attribute from an item: `.id`, `id`, 0.
        path.append(f".{attribute}" if attribute else int(item) if item.isdecimal() else item)
    return path


def _value(path: list[str | int], arguments: Mapping[str, Any], where: str, what: str) -> str:
    value = arguments.get(str(path[0]))
    for step in path[1:]:
        try:
            if isinstance(step, str) and step.startswith("."):
                value = value[step[1:]] if isinstance(value, Mapping) else getattr(value, step[1:])
            else:
                value = value[step]  # type: ignore[index]
        except (AttributeError, LookupError, TypeError) as error:
            raise _refused(where, what, f"it cannot be filled: {error}") from error
    if isinstance(value, Enum):
        value = value.value
    if value is None or value == "":
        raise _refused(where, what, f"a part of it is {value!r}, so different runs would share a {what}")
    if isinstance(value, bool) or not isinstance(value, _SCALARS):
        raise _refused(where, what, f"a part of it is {type(value).__name__}; take text, a number, a UUID or a date")
    return str(value)


def _bad(where: str, why: str) -> DefinitionError:
    return DefinitionError(f"{where}: {why}; nothing was registered.")


def _refused(where: str, what: str, why: str) -> InvalidPayload:
    return InvalidPayload(f"{where}: {why}; nothing was written.", path=what)
