"""`dataclasses.replace` for records of many fields, at a tenth of its price: every transition makes dozens of them.

Frozen dataclasses set each field through `object.__setattr__`. Here a copy is made as an open twin, a class of the same
slots that can be written to, and is given its frozen class once it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from dataclasses import replace as replace_slowly
from typing import TYPE_CHECKING, Any

__all__ = ["replace"]

_COPIES: dict[type, Callable[[Any], Any] | None] = {}

if TYPE_CHECKING:
    from dataclasses import replace  # its arguments are checked field by field
else:

    def replace(record, /, **changes):
        """The record with other values in these fields.

        Raises:
            TypeError: it has no such field.
        """
        cls = type(record)
        try:
            copy = _COPIES[cls]
        except KeyError:
            copy = _COPIES[cls] = _copy_of(cls)
        if copy is None:
            return replace_slowly(record, **changes)
        new = copy(record)
        try:
            for name, value in changes.items():
                setattr(new, name, value)
        except AttributeError:
            return replace_slowly(record, **changes)  # it says what is wrong
        new.__class__ = cls
        return new


def _copy_of(cls: type) -> Callable[[Any], Any] | None:
    """Copies a record of this class into an open twin; None: its class does more than to hold its fields."""
    names = [field.name for field in fields(cls)]
    if list(cls.__dict__.get("__slots__", ())) != names or hasattr(cls, "__post_init__"):
        return None
    twin = type(f"Open{cls.__name__}", (), {"__slots__": tuple(names)})
    lines = [
        "def copy(old):",
        "    new = twin()",
        *(f"    new.{name} = old.{name}" for name in names),
        "    return new",
    ]
    made: dict[str, Any] = {"twin": twin}
    exec("\n".join(lines), made)  # noqa: S102 - of field names alone, as dataclasses does
    copy: Callable[[Any], Any] = made["copy"]
    return copy
