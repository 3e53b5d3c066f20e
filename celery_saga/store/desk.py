"""The compensation desk: runs that need a person, with the undos that have failed."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, bindparam, case, exists, literal, not_, or_, select
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.ports import DeskRow, DeskUndo
from celery_saga.core.records import StepKind
from celery_saga.core.status import StepStatus
from celery_saga.store.rows import run_from
from celery_saga.store.schema import Schema
from celery_saga.store.searching import listed_columns
from celery_saga.store.session import Tx

_USED_UP = (StepStatus.FAILED.value, StepStatus.LOST.value)
_TRIED = (StepStatus.HELD.value, StepStatus.SCHEDULED.value, StepStatus.RUNNING.value)


class DeskRows:
    """Statements of the desk: one for the runs, by their index, and one for the undos of a page."""

    def __init__(self, schema: Schema) -> None:
        self._run = schema.run
        self._lists = select(*listed_columns(schema.run))
        self._undos = _undos(schema)

    def rows(self, tx: Tx, *, saga: str | None, after: tuple[datetime, str] | None, limit: int) -> list[DeskRow]:
        """A page, the run that has waited longest first."""
        run = self._run
        wanted: list[ColumnElement[bool]] = [run.c.attention_at.is_not(None)]
        if saga is not None:
            wanted.append(run.c.saga == saga)
        if after is not None:
            at, run_id = after
            wanted.append(or_(run.c.attention_at > at, and_(run.c.attention_at == at, run.c.id > run_id)))
        oldest = self._lists.where(*wanted).order_by(run.c.attention_at, run.c.id).limit(limit)
        runs = [run_from(row) for row in tx.run("list desk", oldest)]
        undos: dict[str, list[DeskUndo]] = defaultdict(list)
        if runs:
            for row in tx.run("list failing undos", self._undos, {"ids": [each.id for each in runs]}):
                undos[row[0]].append(_undo_from(row))
        return [DeskRow(each, tuple(undos[each.id])) for each in runs]


def _undos(schema: Schema) -> Select[Any]:
    """Undos that have failed, and steps that nobody could undo because their outcome is unknown."""
    run, step = schema.run, schema.step
    undo = step.alias("undo")
    has_tried = or_(step.c.failures > 0, step.c.stalls > 0)
    failing = and_(
        step.c.kind == StepKind.UNDO.value,
        or_(step.c.status.in_(_USED_UP), and_(step.c.status.in_(_TRIED), has_tried)),
    )
    ordered = exists().where(
        undo.c.run_id == step.c.run_id, undo.c.generation == step.c.generation, undo.c.undo_of == step.c.key
    )
    unknown = and_(
        run.c.reason == "undo_unknown",
        step.c.kind == StepKind.STEP.value,
        step.c.maybe,
        step.c.status.in_((*_USED_UP, StepStatus.CANCELLED.value)),
        step.c.undoable,
        not_(ordered),
    )
    is_running = step.c.status == StepStatus.RUNNING.value
    told = (
        step.c.run_id,
        step.c.key,
        step.c.undo_of,
        step.c.task,
        case((step.c.kind == StepKind.UNDO.value, step.c.status), else_=literal(StepStatus.FAILED.value)),
        step.c.attempt,
        step.c.failures,
        step.c.stalls,
        step.c.error_text,
        case((is_running, step.c.lease_until), else_=step.c.wake_at),
        step.c.ended_at,
    )
    of_run = and_(step.c.run_id == run.c.id, step.c.generation == run.c.generation)
    return (
        select(*told)
        .select_from(run.join(step, of_run))
        .where(run.c.id.in_(bindparam("ids", expanding=True)), or_(failing, unknown))
        .order_by(step.c.run_id, step.c.created_at, step.c.place)
    )


def _undo_from(row: Any) -> DeskUndo:
    run_id, key, undo_of, task, status, *rest = row
    return DeskUndo(run_id, undo_of or key, task, StepStatus(status), *rest)
