"""The tables, one definition for every database; their columns follow the fields of the records."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    UniqueConstraint,
)

from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.store.indexes import desk_index, due_index, list_indexes, repeated_index
from celery_saga.store.lane_tables import grant_table, lane_table, slot_table
from celery_saga.store.table_parts import ROW_ID, TABLE, checks_status
from celery_saga.store.types import Document, Instant, Name, Note, Payload, Plain
from celery_saga.store.vault import Vault


class Schema:
    """The tables under one prefix, whose payloads are at rest as a vault makes them."""

    def __init__(self, prefix: str = "", vault: Vault | None = None) -> None:
        self.prefix = prefix
        self.vault = vault = vault or Vault()
        self.metadata = MetaData()
        self.run = _run(self.metadata, prefix, vault)
        self.step = _step(self.metadata, prefix, vault)
        self.tag = _tag(self.metadata, prefix)
        self.signal = _signal(self.metadata, prefix, vault)
        self.history = _history(self.metadata, prefix, vault)
        self.definition = _definition(self.metadata, prefix)
        self.schedule = _schedule(self.metadata, prefix, vault)
        self.fire = _fire(self.metadata, prefix)
        self.sweeper = _sweeper(self.metadata, prefix)
        self.outbox = _outbox(self.metadata, prefix)
        self.relay = _relay(self.metadata, prefix)
        self.lane = lane_table(self.metadata, prefix)
        self.slot = slot_table(self.metadata, prefix)
        self.grant = grant_table(self.metadata, prefix)
        self.applied = _applied(self.metadata, prefix)


def _run(metadata: MetaData, prefix: str, vault: Vault) -> Table:
    name = f"{prefix}saga_run"
    payload, large = Payload(vault), Payload(vault, is_large=True)
    table = Table(name, metadata, *_run_columns(payload, large), _one_of(f"{name}_status", RunStatus), **TABLE)
    due_index(table)
    desk_index(table)
    repeated_index(table)
    list_indexes(table)
    return table


def _run_columns(small: Payload, large: Payload) -> list[Column[Any]]:
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
        Column("input_text", large),
        Column("input_digest", small, nullable=False),
        Column("spec_text", Document, nullable=False),
        Column("headers_text", small, nullable=False),
        Column("result_text", large),
        Column("error_text", small),
        Column("error_step", Name()),
        Column("reason", Plain),
        Column("outcome", Name(24)),
        *_run_work_columns(),
    ]


def _run_work_columns() -> list[Column[Any]]:
    return [
        Column("restart", Boolean, nullable=False),
        Column("cut_text", Document),
        Column("skip_undos", Boolean, nullable=False),
        *(Column(name, Instant) for name in ("started_at", "ended_at", "wake_at", "not_before_at", "deadline_at")),
        Column("priority", Integer, nullable=False),
        Column("lane", Name()),
        Column("tags_text", Document, nullable=False),
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
        Column("pending_text", Document),
        Column("pivoted", Boolean, nullable=False),
        Column("scheduled_for", Instant),
        Column("admission", Name(24), nullable=False),
        Column("asks", Integer, nullable=False),
        Column("purged_at", Instant),
    ]


def _step(metadata: MetaData, prefix: str, vault: Vault) -> Table:
    name = f"{prefix}saga_step"
    table = Table(
        name,
        metadata,
        *_step_columns(Payload(vault), Payload(vault, is_large=True)),
        PrimaryKeyConstraint("run_id", "generation", "key"),
        _one_of(f"{name}_status", StepStatus),
        **TABLE,
    )
    # A pass loads what is not folded, of a part only its region, whatever else the run has done.
    Index(f"{name}_region", table.c.run_id, table.c.generation, table.c.folded, table.c.region)
    Index(f"{name}_at_work", table.c.run_id, table.c.generation, table.c.folded, table.c.status)
    due_index(table)
    repeated_index(table)
    return table


def _step_columns(small: Payload, large: Payload) -> list[Column[Any]]:
    return [
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
        Column("args_digest", small, nullable=False),
        Column("args_text", large, nullable=False),
        Column("spec_text", large, nullable=False),
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
        Column("result_text", large),
        Column("error_text", small),
        Column("undo_of", Name()),
        Column("progress_text", small),
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
    ]


def _tag(metadata: MetaData, prefix: str) -> Table:
    table = Table(
        f"{prefix}saga_tag",
        metadata,
        Column("run_id", Name(64)),
        Column("tag", Name()),
        Column("created_at", Instant, nullable=False),  # of the run, by which lists are ordered
        PrimaryKeyConstraint("run_id", "tag"),
        **TABLE,
    )
    Index(f"{table.name}_newest", table.c.tag, table.c.created_at, table.c.run_id)
    return table


def _signal(metadata: MetaData, prefix: str, vault: Vault) -> Table:
    table = Table(
        f"{prefix}saga_signal",
        metadata,
        Column("id", ROW_ID, primary_key=True, autoincrement=True),
        Column("run_id", Name(64), nullable=False),
        Column("name", Name(), nullable=False),
        Column("signal_id", Name(), nullable=False),
        Column("received_at", Instant, nullable=False),
        Column("value_text", Payload(vault, is_large=True), nullable=False),
        Column("error_text", Payload(vault)),
        Column("taken_by", Name()),
        Column("taken_generation", Integer),
        Column("wake_at", Instant),
        Column("expires_at", Instant),
        UniqueConstraint("run_id", "name", "signal_id", name=f"{prefix}saga_signal_once"),
        sqlite_autoincrement=True,
        **TABLE,
    )
    due_index(table)
    return table


def _history(metadata: MetaData, prefix: str, vault: Vault) -> Table:
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
        Column("detail", Note(vault)),
        Column("by", Plain),
        Column("reason", Note(vault)),
        PrimaryKeyConstraint("run_id", "seq"),
        **TABLE,
    )


def _definition(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_definition",
        metadata,
        Column("name", Name()),
        Column("version", Integer, autoincrement=False),
        Column("digest", Name(64), nullable=False),
        Column("graph_text", Document, nullable=False),
        Column("created_at", Instant, nullable=False),
        PrimaryKeyConstraint("name", "version"),
        **TABLE,
    )


def _schedule(metadata: MetaData, prefix: str, vault: Vault) -> Table:
    table = Table(
        f"{prefix}saga_schedule",
        metadata,
        Column("saga", Name()),
        Column("id", Name()),
        Column("version", Integer, nullable=False),
        Column("kind", Name(24), nullable=False),
        Column("pattern", Name(), nullable=False),
        Column("tz", Name(), nullable=False),
        Column("input_text", Payload(vault), nullable=False),
        Column("input_digest", Payload(vault), nullable=False),
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
        Column("pause_reason", Note(vault)),
        Column("pause_by", Plain),
        Column("failures", Integer, nullable=False),
        Column("error", Note(vault)),
        Column("fire_seq", Integer, nullable=False),
        PrimaryKeyConstraint("saga", "id"),
        **TABLE,
    )
    due_index(table)
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
        **TABLE,
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
        Column("sagas_text", Document, nullable=False),
        **TABLE,
    )


def _outbox(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_outbox",
        metadata,
        Column("id", ROW_ID, primary_key=True, autoincrement=True),
        Column("purpose", Name(8), nullable=False),
        Column("run_id", Name(64), nullable=False),
        Column("saga", Name(), nullable=False),
        Column("event", Name(24), nullable=False),
        Column("event_id", Name(), nullable=False),
        Column("at", Instant, nullable=False),
        Column("body_text", Document, nullable=False),
        Index(f"{prefix}saga_outbox_next", "purpose", "id"),
        sqlite_autoincrement=True,
        **TABLE,
    )


def _relay(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_relay",
        metadata,
        Column("name", Name(24), primary_key=True),
        Column("token", Name(64)),
        Column("lease_until", Instant),
        **TABLE,
    )


def _applied(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}saga_schema",
        metadata,
        Column("number", SmallInteger, autoincrement=False),
        Column("phase", Name(8)),
        Column("name", Name(), nullable=False),
        Column("applied_at", Instant, nullable=False),
        PrimaryKeyConstraint("number", "phase"),
        **TABLE,
    )


def _one_of(name: str, statuses: type[RunStatus] | type[StepStatus]) -> CheckConstraint:
    values = ", ".join(f"'{status.value}'" for status in statuses)
    return CheckConstraint(f"status IN ({values})", name=name).ddl_if(callable_=checks_status)
