"""A start as one statement that commits by itself: the new run's row, with the time that it tells.

Theory of operation. The row is worked out at about the present time and as if its saga were not held back by any lane.
The statement writes it only where that is so, and where its id is free, with the database's time in place of the one
that was guessed. Where it writes nothing, the start is done over in the usual way, which asks first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from sqlalchemy import BigInteger, Executable, bindparam, literal_column, null, select
from sqlalchemy.exc import DBAPIError

from celery_saga.core.moments import Moment, moved
from celery_saga.core.ports import Arrival
from celery_saga.core.records import RunRecord
from celery_saga.store.dialects import Trouble
from celery_saga.store.outbox import OutboxRows
from celery_saga.store.parts import Parts
from celery_saga.store.ready import Ready
from celery_saga.store.rows import RUN_FIELDS
from celery_saga.store.session import Sessions
from celery_saga.store.types import Instant

__all__ = ["StartAtOnce"]

_US = timedelta(microseconds=1)
_NO_TAGS = "[]"


class StartAtOnce:
    """Starts, on connections of the store's own.

    Args:
        announced: what is to be announced is written in the usual way.
    """

    def __init__(self, sessions: Sessions, parts: Parts, announced: OutboxRows) -> None:
        self._sessions, self._parts, self._announced = sessions, parts, announced
        self._ready: dict[tuple[tuple[str, bool], ...], Ready] = {}

    def start(self, make: Callable[[Arrival], RunRecord]) -> tuple[RunRecord | None, bool]:
        """The run, where it was written; and whether it may have been, without our learning it.

        Args:
            make: the run of an arrival. What it counts from the arrival's time is written as counted from the
                database's.
        """
        if not self._parts.vault.is_plain or self._announced.wanted is not None:
            return None, False
        now = Moment.about(datetime.now(UTC))
        run = make(Arrival(now, is_held_back=False))
        if run.admission or run.tags_text != _NO_TAGS:
            return None, False
        try:
            rows = self._sessions.at_once("start at once", *self._bound(run, now))
        except DBAPIError as error:
            # Anything else the usual way meets as well, and tells of it.
            return None, self._parts.database.trouble(error) is Trouble.LOST
        return (moved(run, now, rows[0][-1]), False) if rows else (None, False)

    def _bound(self, run: RunRecord, now: Moment) -> tuple[Ready, list[Any]]:
        given = {name: value for name in RUN_FIELDS if (value := getattr(run, name)) is not None}
        shape = tuple((name, type(value) is Moment) for name, value in given.items())
        ready = self._ready.get(shape)
        if ready is None:
            self._sessions.prepare()
            ready = self._ready[shape] = Ready(_statement(self._parts, shape), self._sessions.engine.dialect)
        return ready, ready.bound(self._parts.clock.binds() | _values(given, now))


def _values(given: Mapping[str, Any], now: Moment) -> dict[str, Any]:
    return {
        f"new_{name}": (value - now) // _US
        if type(value) is Moment
        else value.value
        if isinstance(value, Enum)
        else value
        for name, value in given.items()
    }


def _statement(parts: Parts, shape: tuple[tuple[str, bool], ...]) -> Executable:
    """Writes these columns, each by whether it is counted from the start's time; gives that time, or no row."""
    table = parts.schema.run
    clock = select(parts.clock.now.label("now")).cte("clock")
    interval: Any = literal_column("interval '1 microsecond'")
    values: list[Any] = []
    for name, is_moment in shape:
        if is_moment:
            added: Any = bindparam(f"new_{name}", type_=BigInteger())
            values.append(clock.c.now.op("+", return_type=Instant())(added.op("*")(interval)))
        else:
            values.append(bindparam(f"new_{name}", type_=table.c[name].type))
    saga: Any = bindparam("new_saga", type_=table.c.saga.type)
    free = ~parts.slots.is_held_back(saga, null())
    chosen = select(*values).select_from(clock).where(free)
    written = parts.database.insert_unless_there(table).from_select([name for name, _ in shape], chosen)
    return written.returning(table.c.created_at)
