"""Migrations end in the tables of the schema, whoever runs them and however often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData, inspect

from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepRecord
from celery_saga.errors import SchemaOutdated
from celery_saga.store import SqlStore, migrate, open_store, pending, schema_state
from celery_saga.store.migrations import MIGRATIONS, Migration
from celery_saga.store.schema import Schema
from celery_saga.testing.samples import a_run
from celery_saga.testing.team import ProcessTeam


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/saga.db"
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    store = open_store(url, table_prefix="a_")
    yield store
    store.close()


_NAMES = [
    *("definition", "fire", "grant", "history", "lane", "outbox", "relay"),
    *("run", "schedule", "schema", "signal", "slot", "step", "sweeper", "tag"),
]


def shape(connection: Connection, prefix: str) -> dict[str, Any]:
    """Everything that the database tells about the tables of a prefix, without the prefix."""
    seen = inspect(connection)
    shape: dict[str, Any] = {}
    for table in seen.get_table_names():
        if not table.startswith(prefix):
            continue
        told: dict[str, Any] = {
            "columns": [{**c, "type": repr(c["type"])} for c in seen.get_columns(table)],
            "key": seen.get_pk_constraint(table),
            "indexes": sorted(_told(index) for index in seen.get_indexes(table)),
            "unique": seen.get_unique_constraints(table),
            "checks": seen.get_check_constraints(table),
        }
        shape[table.removeprefix(prefix)] = repr(told).replace(prefix + "saga", "saga")
    return shape


def _told(index: Any) -> str:
    options = sorted((name, str(value)) for name, value in index.get("dialect_options", {}).items())
    return repr([index["name"], index["column_names"], index["unique"], options])


def test_migrated_tables_are_those_of_the_schema(store: SqlStore) -> None:
    migrate(store)
    fresh = Schema("b_")

    with store.sessions.engine.connect() as connection:
        fresh.metadata.create_all(connection)
        connection.commit()
        assert shape(connection, "a_") == shape(connection, "b_")
        assert set(shape(connection, "a_")) == {f"saga_{name}" for name in _NAMES}


def test_nothing_is_left_to_generate(store: SqlStore) -> None:
    migrate(store)

    with store.sessions.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, store.schema.metadata) == []
        assert compare_metadata(context, MetaData()) != []  # it would see a difference


def test_columns_follow_the_fields_of_the_records() -> None:
    schema = Schema()
    for table, record in (
        (schema.run, RunRecord),
        (schema.step, StepRecord),
        (schema.signal, SignalRecord),
        (schema.history, HistoryRecord),
    ):
        assert [c.name for c in table.c if c.name not in ("place", "region", "undoable")] == [
            f.name for f in fields(record)
        ]


def test_migrating_again_does_nothing(store: SqlStore) -> None:
    assert schema_state(store) == "absent"
    everything = pending(store)

    first, second = migrate(store), migrate(store)

    assert (first, second) == (everything, [])
    assert (schema_state(store), pending(store)) == ("current", [])


def test_two_prefixes_have_tables_of_their_own(store: SqlStore, url: str) -> None:
    other = open_store(url, table_prefix="c_")
    migrate(store)

    assert (schema_state(store), schema_state(other)) == ("current", "absent")
    with pytest.raises(SchemaOutdated, match="celery -A proj saga migrate"):
        other.load("any")
    other.close()


def test_a_prefix_may_hold_what_databases_and_drivers_give_a_meaning(url: str) -> None:
    store = open_store(url, table_prefix="a%b\"c-d'e_")
    migrate(store)
    run = a_run()
    store.insert_run(run)

    assert schema_state(store) == "current"
    assert store.load(run.id) is not None
    store.close()


def test_of_processes_that_migrate_at_once_one_does_it(store: SqlStore, url: str, processes: ProcessTeam) -> None:
    processes.on(partial(open_store, url, table_prefix="a_"))

    applied = processes.race([(migrate, ())] * processes.size)

    assert sorted(map(len, applied)) == [0] * (processes.size - 1) + [len(MIGRATIONS)]
    assert schema_state(store) == "current"


def test_what_was_applied_can_be_seen_before_the_next_one_may_migrate(
    store: SqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_store(url, table_prefix="a_")
    unlock = store.database.unlock_migrations
    seen: list[list[str]] = []

    def look_and_unlock(connection: Connection, name: str) -> None:
        seen.append(pending(other))
        unlock(connection, name)

    monkeypatch.setattr(store.database, "unlock_migrations", look_and_unlock)
    migrate(store)
    other.close()

    assert seen == [[]]


def test_a_newer_schema_is_told_and_a_post_part_may_wait(store: SqlStore) -> None:
    done: list[str] = []
    second = Migration(
        2,
        "next",
        pre=lambda on, prefix: done.append("pre"),
        post=lambda on, prefix: done.append("post"),
    )
    both = (*MIGRATIONS, second)
    migrate(store)
    assert schema_state(store, migrations=both) == "outdated"

    assert migrate(store, phase="pre", migrations=both) == ["0002_next.pre"]
    assert (schema_state(store, migrations=both), pending(store, migrations=both)) == ("current", ["0002_next.post"])
    assert schema_state(store) == "newer"
    assert migrate(store, migrations=both) == ["0002_next.post"]
    assert done == ["pre", "post"]


def test_a_migration_that_fails_is_not_recorded_and_can_be_run_again(store: SqlStore) -> None:
    def fail(connection: Connection, prefix: str) -> None:
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        migrate(store, migrations=(*MIGRATIONS, Migration(2, "next", pre=fail)))

    assert schema_state(store) in {"absent", "current"}  # DDL is transactional, or is not
    assert migrate(store) == pending(store) or schema_state(store) == "current"
    assert schema_state(store) == "current"


def test_statuses_are_checked_where_that_costs_nothing_to_speak_of(store: SqlStore) -> None:
    migrate(store)

    with store.sessions.engine.connect() as connection:
        found = {table: inspect(connection).get_check_constraints(f"a_saga_{table}") for table in ("run", "step")}

    names = {table: [each["name"] for each in checks] for table, checks in found.items()}
    wanted = [] if store.dialect == "postgresql" else ["a_saga_run_status", "a_saga_step_status"]
    assert [*names["run"], *names["step"]] == wanted
