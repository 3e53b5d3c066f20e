"""Numbers of all runs, for those who watch: read by one process at a time, each by an index."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, bindparam, func, or_, select, update

from celery_saga.core.records import HistoryRecord
from celery_saga.core.status import RunStatus
from celery_saga.store.lanes import QUEUED
from celery_saga.store.rows import HISTORY_FIELDS, columns, history_from
from celery_saga.store.session import Tx

if TYPE_CHECKING:
    from celery_saga.store.sql_store import SqlStore

__all__ = ["Figures", "figures_of", "marks_of", "take_figures"]

_NAME = "figures"
_SHOWN = tuple(x.value for x in RunStatus if not x.is_end or x is RunStatus.COMPENSATION_FAILED)
_MARKED = ("run", "signal", "timer")


@dataclass(frozen=True, slots=True)
class Figures:
    """How things are now.

    Args:
        runs: number of live and of stuck runs by saga and status.
        overdue_s: seconds since the oldest wake-up that has not been looked at was due; 0: none is.
        desk: runs that need a person.
        outbox: rows that wait, by purpose.
        lanes: runs that queue, by lane.
    """

    runs: dict[tuple[str, str], int] = field(default_factory=dict)
    overdue_s: float = 0.0
    desk: int = 0
    outbox: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, int] = field(default_factory=dict)


def take_figures(store: SqlStore, *, token: str, lease_s: float) -> bool:
    """Become the only process that reads the figures for so long, in seconds, or stay it; False: another one is."""
    relay, clock = store.schema.relay, store.clock
    named = relay.c.name == _NAME
    mine = bindparam("my_token", type_=relay.c.token.type)
    is_free = or_(relay.c.token.is_(None), relay.c.token == mine, relay.c.lease_until <= clock.fixed)
    new = bindparam("new_token", type_=relay.c.token.type)
    statement = update(relay).where(named, is_free).values(token=new, lease_until=clock.later)
    values = {"new_token": token, "my_token": token}

    def work(tx: Tx) -> bool:
        if tx.run("take figures", statement, values | clock.binds(lease_s)).rowcount == 1:
            return True
        first = store.database.insert_unless_there(relay)
        tx.run("first figures", first, {"name": _NAME, "token": None, "lease_until": None})
        return tx.run("take figures", statement, values | clock.binds(lease_s)).rowcount == 1

    return store.own_sessions.write("take figures", work)


def figures_of(store: SqlStore) -> Figures:
    """Read them, in one transaction."""
    return store.own_sessions.read("figures", lambda tx: _read(tx, store))


def _read(tx: Tx, store: SqlStore) -> Figures:
    schema = store.schema
    run, outbox, slot = schema.run, schema.outbox, schema.slot
    by = (run.c.saga, run.c.status)
    counted = select(*by, func.count()).where(run.c.status.in_(_SHOWN)).group_by(*by)
    on_desk = select(func.count()).select_from(run).where(run.c.attention_at.is_not(None))
    waiting = select(outbox.c.purpose, func.count()).group_by(outbox.c.purpose)
    queued = select(slot.c.lane, func.count()).where(slot.c.state.in_(QUEUED)).group_by(slot.c.lane)
    now: datetime = tx.run("read clock", select(store.clock.now.label("now")), store.clock.binds()).scalar_one()
    tables = (run, schema.step, schema.signal)
    due: list[Any] = [tx.run("oldest wake-up", _oldest(each)).scalar_one() for each in tables]
    return Figures(
        {(row[0], row[1]): int(row[2]) for row in tx.run("count runs", counted)},
        max((max(0.0, (now - at).total_seconds()) for at in due if at is not None), default=0.0),
        int(tx.run("count desk", on_desk).scalar_one()),
        {row[0]: int(row[1]) for row in tx.run("count outbox", waiting)},
        {row[0]: int(row[1]) for row in tx.run("count queued", queued)},
    )


def _oldest(table: Any) -> Select[Any]:
    return select(func.min(table.c.wake_at)).where(table.c.wake_at.is_not(None))


def marks_of(store: SqlStore, run_id: str) -> list[HistoryRecord]:
    """History rows of a run about itself, its signals and its timers, in order; not those of its steps."""
    row = store.schema.history
    wanted = (
        select(*columns(row, HISTORY_FIELDS)).where(row.c.run_id == run_id, row.c.kind.in_(_MARKED)).order_by(row.c.seq)
    )
    return store.own_sessions.read("marks", lambda tx: [history_from(each) for each in tx.run("load marks", wanted)])
