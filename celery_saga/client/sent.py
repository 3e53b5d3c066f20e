"""A signal as somebody sends it: what can be refused without asking the run."""

from __future__ import annotations

from typing import Any

from celery_saga.core.asked import MAX_NAME, is_name, shown
from celery_saga.core.storable import is_storable
from celery_saga.errors import InvalidPayload

__all__ = ["check"]


def check(signal: Any, value: object, *, id: Any, error: object) -> str:  # noqa: A002 - its name in the contract
    """The name of the signal; arguments as of `RunHandle.signal`.

    Raises:
        InvalidPayload: no Signal or name, no id, no error, or a value beside one; nothing was sent.
    """
    name = _name_of(signal)
    if id is not None and (not isinstance(id, str) or not 0 < len(id) <= MAX_NAME or not is_storable(id)):
        raise InvalidPayload(
            f"signal {name!r}: id= must be text of 1 to {MAX_NAME} characters without NUL, got "
            f"{shown(id)}; nothing was sent.",
            path="id",
        )
    if error is not None and (value is not None or not isinstance(error, Exception)):
        wrong = f"got {shown(error)}" if value is None else "and no value beside it"
        raise InvalidPayload(
            f"signal {name!r}: error= takes an instance of an exception, {wrong}; nothing was sent.", path="error"
        )
    return name


def _name_of(signal: Any) -> str:
    name = signal if isinstance(signal, str) else getattr(signal, "name", None)
    if not isinstance(name, str) or not (isinstance(signal, str) or hasattr(signal, "check")):
        raise InvalidPayload(
            f"signal() takes a Signal or its name, got {shown(signal)}; nothing was sent.", path="signal"
        )
    if not is_name(name) or name.startswith("!"):
        raise InvalidPayload(
            f"a signal's name is text of 1 to {MAX_NAME} characters, none of them a control character, that does not "
            f"begin with '!', got {shown(name)}; nothing was sent.",
            path="signal",
        )
    return name
