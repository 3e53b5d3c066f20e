"""The first tables, as they were then: never edit what has been released, add a number instead."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    UniqueConstraint,
    and_,
    event,
)
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.store.table_parts import checks_status
from celery_saga.store.types import Instant, Name, Payload, Plain

_RUN_STATUSES = "queued running waiting compensating suspended completed failed cancelled compensation_failed"
_STEP_STATUSES = "held scheduled waiting running done failed lost cancelled"
_ROW_ID = BigInteger().with_variant(Integer(), "sqlite")
_TABLE: dict[str, Any] = {
    f"{family}_{option}": value
    for family in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("row_format", "DYNAMIC"))
}


def pre(connection: Connection, prefix: str) -> None:
    """Create what is not there yet."""
    metadata = MetaData()
    runs = (_run, _step, _tag, _signal, _history, _definition)
    for table in (*runs, _schedule, _fire, _sweeper, _outbox, _relay, _lane, _slot, _grant, _applied):
        table(metadata, prefix)
    metadata.create_all(connection)


def _run(metadata: MetaData, prefix: str) -> Table:
    name = f"{prefix}saga_run"
    table = Table(name, metadata, *_run_columns(), _one_of(f"{name}_status", _RUN_STATUSES), **_TABLE)
    _due_index(table)
    _desk_index(table)
    _repeated_index(table)
    _list_indexes(table)
    _some(f"{name}_ended", table.c.saga, table.c.ended_at, table.c.id, where=_is_kept(table, table.c.ended_at))
    _some(f"{name}_parent", table.c.parent_id, where=table.c.parent_id.is_not(None))
    return table


def _list_indexes(table: Table) -> None:
    # Every transition moves an indexed column, so each of these costs PostgreSQL a write each time: few, and none that
    # holds rows nobody would look for there.
    name, newest = table.name, (table.c.created_at, table.c.id)
    _some(f"{name}_newest", *newest, where=table.c.purged_at.is_(None))
    _some(f"{name}_purged", *newest, where=table.c.purged_at.is_not(None))
    _some(f"{name}_saga", table.c.saga, table.c.version, table.c.status, *newest, where=table.c.purged_at.is_(None))
    _some(f"{name}_key", table.c.key, where=table.c.key.is_not(None))
    _some(f"{name}_lane", table.c.lane, *newest, where=_is_kept(table, table.c.lane))
    Index(f"{name}_status", table.c.status, *newest)


def _is_kept(table: Table, column: Column[Any]) -> ColumnElement[bool]:
    return and_(column.is_not(None), table.c.purged_at.is_(None))


def _run_columns() -> list[Column[Any]]:
    return [
        Column("id", Name(64), primary_key=True),
        Column("saga", Name(), nullable=False),
        Column("version", Integer, nullable=False),
        Column("key", Name()),
        Column("status", Name(24), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
        Column("generation", Integer, nullable=False),
        Column("state_version", BigInteger, nullable=False),
        Column("input_text", Payload),
        Column("input_digest", Payload, nullable=False),
        Column("spec_text", Payload, nullable=False),
        Column("headers_text", Payload, nullable=False),
        Column("result_text", Payload),
        Column("error_text", Payload),
        Column("error_step", Name()),
        Column("reason", Plain),
        Column("outcome", Name(24)),
        Column("restart", Boolean, nullable=False),
        Column("cut_text", Payload),
        Column("skip_undos", Boolean, nullable=False),
        Column("started_at", Instant),
        Column("ended_at", Instant),
        Column("wake_at", Instant),
        Column("not_before_at", Instant),
        Column("deadline_at", Instant),
        Column("priority", Integer, nullable=False),
        Column("lane", Name()),
        Column("tags_text", Payload, nullable=False),
        Column("queue", Name()),
        Column("parent_id", Name(64)),
        Column("parent_key", Name()),
        Column("failures", Integer, nullable=False),
        Column("stalls", Integer, nullable=False),
        Column("claim_token", Name(64)),
        Column("lease_until", Instant),
        Column("sends", Integer, nullable=False),
        Column("sent_at", Instant),
        Column("redispatched_at", Instant),
        Column("attention_at", Instant),
        Column("step_seq", Integer, nullable=False),
        Column("history_seq", Integer, nullable=False),
        Column("folded", Boolean, nullable=False),
        Column("shields", Integer, nullable=False),
        Column("pending_text", Payload),
        Column("pivoted", Boolean, nullable=False),
        Column("scheduled_for", Instant),
        Column("admission", Name(24), nullable=False),
        Column("asks", Integer, nullable=False),
        Column("purged_at", Instant),
    ]


def _step(metadata: MetaData, prefix: str) -> Table:
    name = f"{prefix}saga_step"
    table = Table(
        name,
        metadata,
        Column("run_id", Name(64)),
        Column("generation", Integer, autoincrement=False),
        Column("key", Name()),
        Column("kind", Name(24), nullable=False),
        Column("status", Name(24), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("scope", Name(), nullable=False),
        Column("ordinal", Integer, nullable=False),
        Column("born", Integer, nullable=False),
        Column("task", Name(), nullable=False),
        Column("args_digest", Payload, nullable=False),
        Column("args_text", Payload, nullable=False),
        Column("spec_text", Payload, nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("failures", Integer, nullable=False),
        Column("stalls", Integer, nullable=False),
        Column("sends", Integer, nullable=False),
        Column("sent_at", Instant),
        Column("redispatched_at", Instant),
        Column("maybe", Boolean, nullable=False),
        Column("seq", Integer),
        Column("claim_token", Name(64)),
        Column("owner", Name()),
        Column("lease_until", Instant),
        Column("due_at", Instant),
        Column("wake_at", Instant),
        Column("task_id", Name()),
        Column("result_text", Payload),
        Column("error_text", Payload),
        Column("undo_of", Name()),
        Column("progress_text", Payload),
        Column("progress_at", Instant),
        Column("join_key", Name()),
        Column("join_total", Integer, nullable=False),
        Column("join_left", Integer, nullable=False),
        Column("join_next", Integer, nullable=False),
        Column("folded", Boolean, nullable=False),
        Column("started_at", Instant),
        Column("ended_at", Instant),
        Column("place", BigInteger, nullable=False),  # order within the run; of the store alone
        Column("region", Name(), nullable=False),  # of the key; of the store alone
        Column("undoable", Boolean, nullable=False),  # its options hold an undo; of the store alone
        PrimaryKeyConstraint("run_id", "generation", "key"),
        _one_of(f"{name}_status", _STEP_STATUSES),
        **_TABLE,
    )
    # A pass loads what is not folded, of a part only its region, whatever else the run has done.
    Index(f"{name}_region", table.c.run_id, table.c.generation, table.c.folded, table.c.region)
    Index(f"{name}_at_work", table.c.run_id, table.c.generation, table.c.folded, table.c.status)
    _due_index(table)
    _repeated_index(table)
    event.listen(table, "after_create", _may_be_wide(name).execute_if(dialect="postgresql"))
    return table


def _may_be_wide(name: str) -> Any:
    """To PostgreSQL, which plans by the average: as if each run had a hundred steps, from the first ANALYZE on.

    A run may have ten or ten thousand. Where most are short, it would rather read all steps of a run than use an index
    made to find one.
    """
    # Quoted here: `%(fullname)s` would double each percent sign twice.
    told = "ALTER TABLE %(name)s ALTER COLUMN run_id SET (n_distinct = -0.01)"
    return DDL(told, context={"name": '"{}"'.format(name.replace('"', '""'))})  # type: ignore[no-untyped-call]


def _tag(metadata: MetaData, prefix: str) -> Table:
    table = Table(
        f"{prefix}saga_tag",
        metadata,
        Column("run_id", Name(64)),
        Column("tag", Name()),
        Column("created_at", Instant, nullable=False),  # of the run, by which lists are ordered
        PrimaryKeyConstraint("run_id", "tag"),
        **_TABLE,
    )
    Index(f"{table.name}_newest", table.c.tag, table.c.created_at, table.c.run_id)
    return table


def _signal(metadata: MetaData, prefix: str) -> Table:
    table = Table(
        f"{prefix}saga_signal",
        metadata,
        Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        Column("run_id", Name(64), nullable=False),
        Column("name", Name(), nullable=False),
        Column("signal_id", Name(), nullable=False),
        Column("received_at", Instant, nullable=False),
        Column("value_text", Payload, nullable=False),
        Column("error_text", Payload),
        Column("taken_by", Name()),
        Column("taken_generation", Integer),
        Column("wake_at", Instant),
        Column("expires_at", Instant),
        UniqueConstraint("run_id", "name", "signal_id", name=f"{prefix}saga_signal_once"),
        sqlite_autoincrement=True,
        **_TABLE,
    )
    _due_index(table)
    return table


def _history(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_history",
        metadata,
        Column("run_id", Name(64)),
        Column("seq", Integer, autoincrement=False),
        Column("at", Instant, nullable=False),
        Column("action", Name(24), nullable=False),
        Column("kind", Name(24), nullable=False),
        Column("step", Name()),
        Column("attempt", Integer),
        Column("generation", Integer, nullable=False),
        Column("detail", Plain),
        Column("by", Plain),
        Column("reason", Plain),
        PrimaryKeyConstraint("run_id", "seq"),
        **_TABLE,
    )


def _definition(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_definition",
        metadata,
        Column("name", Name()),
        Column("version", Integer, autoincrement=False),
        Column("digest", Name(64), nullable=False),
        Column("graph_text", Payload, nullable=False),
        Column("created_at", Instant, nullable=False),
        PrimaryKeyConstraint("name", "version"),
        **_TABLE,
    )


def _schedule(metadata: MetaData, prefix: str) -> Table:
    table = Table(
        f"{prefix}saga_schedule",
        metadata,
        Column("saga", Name()),
        Column("id", Name()),
        Column("version", Integer, nullable=False),
        Column("kind", Name(24), nullable=False),
        Column("pattern", Name(), nullable=False),
        Column("tz", Name(), nullable=False),
        Column("input_text", Payload, nullable=False),
        Column("input_digest", Payload, nullable=False),
        Column("overlap", Name(24), nullable=False),
        Column("catch_up", Name(24), nullable=False),
        Column("source", Name(24), nullable=False),
        Column("owner", Name(), nullable=False),
        Column("driver", Name(24), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
        Column("anchor_at", Instant, nullable=False),
        Column("next_at", Instant),
        Column("wake_at", Instant),
        Column("last_fire_at", Instant),
        Column("last_run_id", Name(64)),
        Column("handled_at", Instant),
        Column("exempt_until_at", Instant),
        Column("paused", Boolean, nullable=False),
        Column("pause_reason", Plain),
        Column("pause_by", Plain),
        Column("failures", Integer, nullable=False),
        Column("error", Plain),
        Column("fire_seq", Integer, nullable=False),
        PrimaryKeyConstraint("saga", "id"),
        **_TABLE,
    )
    _due_index(table)
    return table


def _fire(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_fire",
        metadata,
        Column("saga", Name()),
        Column("schedule", Name()),
        Column("seq", Integer, autoincrement=False),
        Column("nominal_at", Instant, nullable=False),
        Column("until_at", Instant, nullable=False),
        Column("count", Integer, nullable=False),
        Column("outcome", Name(24), nullable=False),
        Column("reason", Name(24)),
        Column("run_id", Name(64)),
        Column("at", Instant, nullable=False),
        PrimaryKeyConstraint("saga", "schedule", "seq"),
        **_TABLE,
    )


def _sweeper(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_sweeper",
        metadata,
        Column("name", Name(), primary_key=True),
        Column("host", Name(), nullable=False),
        Column("pid", BigInteger, nullable=False),
        Column("since_at", Instant, nullable=False),
        Column("seen_at", Instant, nullable=False),
        Column("sagas_text", Payload, nullable=False),
        **_TABLE,
    )


def _outbox(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_outbox",
        metadata,
        Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        Column("purpose", Name(8), nullable=False),
        Column("run_id", Name(64), nullable=False),
        Column("saga", Name(), nullable=False),
        Column("event", Name(24), nullable=False),
        Column("event_id", Name(), nullable=False),
        Column("at", Instant, nullable=False),
        Column("body_text", Payload, nullable=False),
        Index(f"{prefix}saga_outbox_next", "purpose", "id"),
        sqlite_autoincrement=True,
        **_TABLE,
    )


def _relay(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_relay",
        metadata,
        Column("name", Name(24), primary_key=True),
        Column("token", Name(64)),
        Column("lease_until", Instant),
        **_TABLE,
    )


def _lane(metadata: MetaData, prefix: str) -> Table:
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
        **_TABLE,
    )
    _due_index(table)
    return table


def _slot(metadata: MetaData, prefix: str) -> Table:
    name = f"{prefix}saga_slot"
    table = Table(
        name,
        metadata,
        Column("id", _ROW_ID, primary_key=True, autoincrement=True),  # the place in the queue
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
        **_TABLE,
    )
    Index(f"{name}_queue", table.c.lane, table.c.state, table.c.turn, table.c.id)
    Index(f"{name}_kept", table.c.lane, table.c.kept)
    _due_index(table)
    return table


def _grant(metadata: MetaData, prefix: str) -> Table:
    table = Table(
        f"{prefix}saga_grant",
        metadata,
        Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        Column("lane", Name(), nullable=False),
        Column("at", Instant, nullable=False),
        sqlite_autoincrement=True,
        **_TABLE,
    )
    Index(f"{table.name}_window", table.c.lane, table.c.at)
    return table


def _applied(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_schema",
        metadata,
        Column("number", SmallInteger, autoincrement=False),
        Column("phase", Name(8)),
        Column("name", Name(), nullable=False),
        Column("applied_at", Instant, nullable=False),
        PrimaryKeyConstraint("number", "phase"),
        **_TABLE,
    )


def _one_of(name: str, statuses: str) -> CheckConstraint:
    values = ", ".join(f"'{status}'" for status in statuses.split())
    return CheckConstraint(f"status IN ({values})", name=name).ddl_if(callable_=checks_status)


def _due_index(table: Table) -> None:
    # Most rows wait for nothing: where the database can, they are not in the index that every tick reads.
    _some(f"{table.name}_due", table.c.wake_at, where=table.c.wake_at.is_not(None))


def _desk_index(table: Table) -> None:
    _some(f"{table.name}_desk", table.c.attention_at, table.c.id, where=table.c.attention_at.is_not(None))


def _repeated_index(table: Table) -> None:
    # What was woken again and again is rare, and asked for by people.
    _some(f"{table.name}_repeated", table.c.sends, where=and_(table.c.wake_at.is_not(None), table.c.sends >= 5))


def _some(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> Index:
    """An index that has only these rows where the database can, and all of them elsewhere."""
    return Index(name, *columns, postgresql_where=where, sqlite_where=where)
