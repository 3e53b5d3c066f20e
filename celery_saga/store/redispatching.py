"""Wake-ups that were sent and have not led to anything yet: found, and marked as sent again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, Table, and_, bindparam, or_, select, tuple_, update
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.due import Due, DueKind, SentFilter
from celery_saga.core.replacing import replace
from celery_saga.core.status import Admission, StepStatus
from celery_saga.store.claims import WORKING, may_be_woken
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.rows import RUN_FIELDS, STEP_FIELDS, columns, run_from, step_from
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.types import Instant

_KEPT_BACK = (Admission.ASKED.value, Admission.LEAVING.value)
"""Runs that will be sent a wake-up when a lane lets them in; what they have is that of their deadline."""
_UNCLAIMED = (StepStatus.SCHEDULED.value, StepStatus.WAITING.value)


class SentRows:
    """Statements over rows whose wake-up is out: by the index of what is due, which ended runs are not in."""

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._run, self._step, self._clock, self._database = schema.run, schema.step, clock, database
        self._runs = select(*columns(schema.run, RUN_FIELDS, without=frozenset({"input_text"}))).where(
            may_be_woken(schema.run), schema.run.c.admission.notin_(_KEPT_BACK)
        )
        self._steps = _steps(schema)

    def find(self, tx: Tx, kind: DueKind, wanted: SentFilter) -> list[Due]:
        """A page, those first that the sweeper would look at first."""
        table = self._run if kind is DueKind.RUN else self._step
        by = [table.c.id] if kind is DueKind.RUN else [table.c.run_id, table.c.generation, table.c.key]
        statement = (self._runs if kind is DueKind.RUN else self._steps).where(*self._conditions(table, wanted))
        if wanted.after is not None:
            statement = statement.where(_is_later(table, by, wanted.after))
        rows = tx.run("list sent", statement.order_by(table.c.wake_at, *by).limit(wanted.limit))
        if kind is DueKind.RUN:
            return [Due(kind, row[0], run=run_from(row)) for row in rows]
        width = len(STEP_FIELDS)
        return [Due(kind, row[0], step_from(row[:width]), run_from(row[width:])) for row in rows]

    def _conditions(self, table: Table, wanted: SentFilter) -> list[ColumnElement[bool]]:
        is_redispatched = and_(
            table.c.redispatched_at == table.c.sent_at, table.c.redispatched_at > wanted.again_before
        )
        found: list[ColumnElement[bool]] = [
            table.c.wake_at.is_not(None),
            table.c.sends > 0,
            or_(table.c.redispatched_at.is_(None), table.c.sent_at.is_(None), ~is_redispatched),
        ]
        if wanted.saga is not None:
            found.append(self._run.c.saga == wanted.saga)
        return found

    def mark(self, tx: Tx, dues: Sequence[Due], *, hold_s: float) -> list[Due]:
        """Those that are still as they were seen and nobody works on, as they are now: sent again, one time more."""
        now: datetime = tx.run("read clock", select(self._clock.now), self._clock.binds()).scalar_one()
        until = now + timedelta(seconds=hold_s)
        still = [each for each in dues if _place(each) in self._unmoved(tx, dues)]
        for table, ids in self._ids(still):
            values = {"wake_at": until, "sends": table.c.sends + 1, "sent_at": now, "redispatched_at": now}
            tx.run("mark sent", self._among(update(table).values(values), table), {"ids": ids})
        return [_again(each, now, until) for each in still]

    def take_back(self, tx: Tx, dues: Sequence[Due]) -> None:
        """These could not be sent after all: they are due now, and not marked, unless they have moved meanwhile."""
        now: datetime = tx.run("read clock", select(self._clock.now), self._clock.binds()).scalar_one()
        still = [each for each in dues if _place(each) in self._unmoved(tx, dues)]
        for table, ids in self._ids(still):
            tx.run(
                "take back", self._among(update(table).values(wake_at=now, redispatched_at=None), table), {"ids": ids}
            )

    def _ids(self, dues: Sequence[Due]) -> list[tuple[Table, list[Any]]]:
        runs = [each.run_id for each in dues if each.kind is DueKind.RUN]
        steps = [(s.run_id, s.generation, s.key) for s in (each.step for each in dues) if s is not None]
        return [(table, ids) for table, ids in ((self._run, runs), (self._step, steps)) if ids]

    def _unmoved(self, tx: Tx, dues: Sequence[Due]) -> set[tuple[Any, ...]]:
        """Locks them, without waiting for who works on one; what tells that nothing has happened to them."""
        found: set[tuple[Any, ...]] = set()
        for table, ids in self._ids(dues):
            keys = (table.c.id,) if table is self._run else (table.c.run_id, table.c.generation, table.c.key)
            told = self._among(select(*keys, table.c.sends, table.c.wake_at), table)
            if table is self._step:
                told = told.where(table.c.status.in_(_UNCLAIMED))
            rows = tx.run("lock sent", told.with_for_update(skip_locked=self._database.skips_locked), {"ids": ids})
            found |= {tuple(row) for row in rows}
        return found

    def _among(self, statement: Any, table: Table) -> Any:
        if table is self._run:
            return statement.where(table.c.id.in_(bindparam("ids", expanding=True)))
        ids = tuple_(table.c.run_id, table.c.generation, table.c.key)
        return statement.where(ids.in_(bindparam("ids", expanding=True)))


def _steps(schema: Schema) -> Select[Any]:
    run, step = schema.run, schema.step
    of_run = and_(step.c.run_id == run.c.id, step.c.generation == run.c.generation)
    told = (*columns(step, STEP_FIELDS), *columns(run, RUN_FIELDS, without=frozenset({"input_text"})))
    labelled = [column.label(f"c{number}") for number, column in enumerate(told)]
    return (
        select(*labelled)
        .select_from(step.join(run, of_run))
        .where(step.c.status.in_(_UNCLAIMED), run.c.status.in_(WORKING))
    )


def _is_later(table: Table, by: Sequence[Any], after: tuple[datetime, tuple[Any, ...]]) -> ColumnElement[bool]:
    at, last = after
    instant = bindparam("after_at", at, type_=Instant())
    is_tied: ColumnElement[bool] = by[-1] > last[-1]
    for column, value in zip(reversed(by[:-1]), reversed(last[:-1]), strict=True):
        is_tied = or_(column > value, and_(column == value, is_tied))
    return or_(table.c.wake_at > instant, and_(table.c.wake_at == instant, is_tied))


def _place(due: Due) -> tuple[Any, ...]:
    if due.step is not None:
        return (due.step.run_id, due.step.generation, due.step.key, due.step.sends, due.step.wake_at)
    assert due.run is not None
    return (due.run.id, due.run.sends, due.run.wake_at)


def _again(due: Due, now: datetime, until: datetime) -> Due:
    at: dict[str, Any] = {"wake_at": until, "sent_at": now, "redispatched_at": now}
    if due.step is not None:
        return replace(due, step=replace(due.step, sends=due.step.sends + 1, **at))
    assert due.run is not None
    return replace(due, run=replace(due.run, sends=due.run.sends + 1, **at))
