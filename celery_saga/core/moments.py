"""The time of a transition that the database tells only while it writes it.

Theory of operation. A transition is worked out at about the time at which it will be written, and that time is a
`Moment`. Whatever is counted from it is a `Moment` as well, which is how it is told from instants that were given or
read. The database writes each of those as its own clock has it then, plus what was added; the records in memory are
moved by what the clock was off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

from celery_saga.core.replacing import replace

__all__ = ["Moment", "moved"]

T = TypeVar("T")


class Moment(datetime):
    """An instant that is counted from a transition's own time, aware UTC."""

    @classmethod
    def about(cls, at: datetime) -> Moment:
        """The time of a transition that will be written at about this instant."""
        return cls(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, at.tzinfo)


def moved(record: T, now: Moment, told: datetime) -> T:
    """A record whose moments have become instants, now that the time `now` was told to be `told`."""
    of: Any = record
    known = _INSTANTS.get(type(of))
    if known is None:
        names = tuple(each.name for each in fields(of) if "datetime" in str(each.type))
        known = _INSTANTS[type(of)] = (names, attrgetter(*names, names[0]))  # two at least, so that it gives a tuple
    names, values_of = known
    found = {name: told + (at - now) for name, at in zip(names, values_of(of), strict=False) if type(at) is Moment}
    made: T = replace(of, **found) if found else record
    return made


_INSTANTS: dict[type, tuple[tuple[str, ...], Callable[[Any], Any]]] = {}
