"""The database's clock as SQL, or a given clock as bound values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Float, bindparam
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.store.dialects import Database
from celery_saga.store.types import Instant


class Clock:
    """Expressions for use in statements that are built once; `binds()` goes with every execution of them."""

    def __init__(self, database: Database, given: Callable[[], datetime] | None) -> None:
        delay = bindparam("delay_s", type_=Float())
        now, fixed, later = database.now(), database.fixed_now(), database.later(delay)
        if given is not None or now is None or fixed is None or later is None:
            self._read: Callable[[], datetime] | None = given or _host_now
            now = fixed = bindparam("now_at", type_=Instant())
            later = bindparam("later_at", type_=Instant())
        else:
            self._read = None
        self.now: ColumnElement[datetime] = now
        """At the moment of evaluation: after a lock that the statement waited for."""
        self.fixed: ColumnElement[datetime] = fixed
        """At the beginning of the statement; an index can be searched by it."""
        self.later: ColumnElement[datetime] = later
        """`now` plus the delay given to `binds`."""

    def binds(self, delay_s: float | None = None) -> dict[str, Any]:
        """What to execute a statement with; `delay_s` where it uses `later`. A given clock is read now."""
        if self._read is None:
            return {} if delay_s is None else {"delay_s": delay_s}
        now = self._read()
        return {"now_at": now} if delay_s is None else {"now_at": now, "later_at": now + timedelta(seconds=delay_s)}


def _host_now() -> datetime:
    return datetime.now(UTC)
