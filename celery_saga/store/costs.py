"""What ended runs have left in the tables, counted and added up there: no payload is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import LargeBinary, Table, Text, case, cast, func, literal, select, type_coerce
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.status import RunStatus
from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore
from celery_saga.store.types import Document, Payload

__all__ = ["Left", "left_by"]

_ENDED = tuple(status.value for status in RunStatus if status.is_end)


@dataclass(frozen=True, slots=True)
class Left:
    """Rows of one kind that some runs have left.

    Args:
        kind: of steps as `StepKind`; `run`, `signal` and `history` of the others.
        key, task: of a step; empty of the others.
        in_join: it is a part of a join.
        sent: it was executed by messages; False: inline, or not at all.
        rows: how many.
        attempts: of all of them.
        texts_bytes: bytes of UTF-8 of their texts, as stored.
    """

    kind: str
    key: str
    task: str
    in_join: bool
    sent: bool
    rows: int
    attempts: int
    texts_bytes: int


def left_by(store: SqlStore, saga: str, *, runs: int) -> tuple[int, list[Left]]:
    """How many of the last `runs` ended runs of a saga were found, and what they have left; purged ones are left out.

    Raises:
        StoreUnavailable: the database is out of reach.
    """
    return store.sessions.read("costs", lambda tx: _left_by(tx, store, saga, runs))


def _left_by(tx: Tx, store: SqlStore, saga: str, runs: int) -> tuple[int, list[Left]]:
    schema, run = store.schema, store.schema.run
    last = (
        select(run.c.id)
        .where(run.c.saga == saga, run.c.status.in_(_ENDED), run.c.purged_at.is_(None))
        .order_by(run.c.created_at.desc(), run.c.id.desc())
        .limit(runs)
    )
    ids = list(tx.run("list ended runs", last).scalars())
    found = [_plain(tx, "run", schema.run, schema.run.c.id, ids, store.dialect)]
    found += [
        _plain(tx, kind, table, table.c.run_id, ids, store.dialect)
        for kind, table in (("signal", schema.signal), ("history", schema.history))
    ]
    step = schema.step
    shape = (step.c.kind, step.c.key, step.c.task, step.c.join_key.is_not(None), step.c.sends > 0)
    statement = (
        select(*shape, func.count(), func.sum(step.c.attempt), func.sum(_bytes(step, store.dialect)))
        .where(step.c.run_id.in_(ids))
        .group_by(*shape)
    )
    for kind, key, task, in_join, sent, rows, attempts, size in tx.run("add up steps", statement):
        found.append(Left(kind, key, task, bool(in_join), bool(sent), rows, int(attempts), int(size)))
    return len(ids), found


def _plain(tx: Tx, kind: str, table: Table, of_run: Any, ids: list[str], dialect: str) -> Left:
    added = select(func.count(), func.coalesce(func.sum(_bytes(table, dialect)), 0)).where(of_run.in_(ids))
    rows, size = tx.run(f"add up {kind}", added).one()
    return Left(kind, "", "", False, False, rows, 0, int(size))


def _bytes(table: Table, dialect: str) -> ColumnElement[int]:
    size: ColumnElement[int] = literal(0)
    for column in table.c:
        if isinstance(column.type, (Payload, Document)):
            raw = type_coerce(column, Text)
            one = func.length(cast(raw, LargeBinary)) if dialect == "sqlite" else func.octet_length(raw)
            size = size + case((column.is_(None), 0), else_=one)
    return size
