"""The tables of lanes: what is said of them, who queues and who is in, and who became active when."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, Table, UniqueConstraint

from celery_saga.store.indexes import due_index
from celery_saga.store.table_parts import ROW_ID, TABLE
from celery_saga.store.types import Instant, Name, Plain

__all__ = ["grant_table", "lane_table", "slot_table"]


def lane_table(metadata: MetaData, prefix: str) -> Table:
    """Lanes, and caps and pauses of sagas: what is said of each."""
    table = Table(
        f"{prefix}saga_lane",
        metadata,
        Column("name", Name(), primary_key=True),
        Column("cap", Integer),
        Column("hold", Name(24), nullable=False),
        Column("limit", Integer),
        Column("window_ms", BigInteger),
        Column("source", Name(24), nullable=False),
        Column("said_at", Instant),  # when the run was made whose code said it; NULL: it was said by name
        Column("paused_at", Instant),
        Column("paused_by", Plain),
        Column("paused_reason", Plain),
        Column("limited_until", Instant),
        Column("enlisting", Boolean, nullable=False),
        Column("wake_at", Instant),
        **TABLE,
    )
    due_index(table)
    return table


def slot_table(metadata: MetaData, prefix: str) -> Table:
    """One row for each run and lane that it needs."""
    name = f"{prefix}saga_slot"
    table = Table(
        name,
        metadata,
        Column("id", ROW_ID, primary_key=True, autoincrement=True),  # the place in the queue
        Column("lane", Name(), nullable=False),
        Column("run_id", Name(64), nullable=False),
        Column("rank", Integer, nullable=False),
        Column("turn", Integer, nullable=False),  # minus the priority: lower is first
        Column("counts", Boolean, nullable=False),  # not of a child, which is in its parent's slot
        Column("kept", Boolean, nullable=False),  # for life; set before `state`, which it is worked out from
        Column("state", Name(24), nullable=False),
        Column("hold", Name(24), nullable=False),  # of the lane, when it was granted
        Column("limited", Boolean, nullable=False),  # the lane had a limit then
        Column("ask", Integer, nullable=False),
        Column("said_text", Plain),  # of the lane, by the code that started the run
        Column("wake_at", Instant),
        UniqueConstraint("run_id", "lane", name=f"{name}_once"),
        sqlite_autoincrement=True,
        **TABLE,
    )
    Index(f"{name}_queue", table.c.lane, table.c.state, table.c.turn, table.c.id)
    Index(f"{name}_kept", table.c.lane, table.c.kept)
    due_index(table)
    return table


def grant_table(metadata: MetaData, prefix: str) -> Table:
    """When runs became active in lanes with a limit."""
    table = Table(
        f"{prefix}saga_grant",
        metadata,
        Column("id", ROW_ID, primary_key=True, autoincrement=True),
        Column("lane", Name(), nullable=False),
        Column("at", Instant, nullable=False),
        sqlite_autoincrement=True,
        **TABLE,
    )
    Index(f"{table.name}_window", table.c.lane, table.c.at)
    return table
