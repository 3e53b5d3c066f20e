"""What will come due soon, so that the sweeper can look just then."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Any

from sqlalchemy import Select, Table, bindparam, func, select, union_all
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.status import StepStatus
from celery_saga.store.claims import may_be_woken
from celery_saga.store.clock import Clock
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.types import Instant


class Coming:
    """Timers: what has not been woken yet. When a wake-up is to be sent again, or a lease ends, nobody waits for."""

    def __init__(self, schema: Schema, clock: Clock) -> None:
        self._schema, self._clock = schema, clock

    @cached_property
    def _soonest(self) -> Select[Any]:
        run, step, schedule = self._schema.run, self._schema.step, self._schema.schedule
        timers = union_all(
            _first(run, run.c.sends == 0, may_be_woken(run)),
            _first(step, step.c.sends == 0, step.c.status != StepStatus.RUNNING.value),
            _first(schedule),
        ).subquery()
        return select(func.min(timers.c.at, type_=Instant()))

    def within(self, tx: Tx, within_s: float, since_s: float) -> float | None:
        """In how many seconds the first timer comes due, from `since_s` ago to `within_s` from now; None: none does."""
        now = tx.run("now", select(self._clock.now), self._clock.binds()).scalar_one()
        since, until = now - timedelta(seconds=since_s), now + timedelta(seconds=within_s)
        first = tx.run("coming due", self._soonest, {"since": since, "until": until}).scalar_one()
        return None if first is None else float((first - now).total_seconds())


def _first(table: Table, *conditions: ColumnElement[bool]) -> Select[Any]:
    soon = table.c.wake_at.between(bindparam("since", type_=Instant()), bindparam("until", type_=Instant()))
    return select(func.min(table.c.wake_at).label("at")).where(soon, *conditions)
