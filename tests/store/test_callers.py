"""The store inside a caller's transaction: what the caller rolls back was never there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import psycopg2
import pymysql
import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.orm import Session

from celery_saga.core.ports import RunFilter
from celery_saga.core.records import Action
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.errors import SchemaOutdated, StoreUnavailable
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.samples import SECOND, Adding, a_run, a_signal, a_step


@pytest.fixture(params=["sqlite", "postgresql", "psycopg", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    server = request.param != "sqlite"
    url = request.getfixturevalue(f"{request.param}_url") if server else f"sqlite:///{tmp_path}/saga.db"
    store = open_store(url)
    migrate(store)
    yield store
    store.close()


@pytest.fixture
def caller(store: SqlStore) -> Iterator[Any]:
    """A connection of the driver, in a zone of its own, inside a transaction."""
    url = store.sessions.engine.url
    where = {"host": url.host, "port": url.port, "user": url.username}
    connect: dict[str, Callable[[], Any]] = {
        "pysqlite": lambda: sqlite3.connect(url.database or ""),
        "psycopg2": lambda: psycopg2.connect(**where, dbname=url.database),
        "psycopg": lambda: psycopg.connect(**where, dbname=url.database),
        "pymysql": lambda: pymysql.connect(**where, database=url.database, charset="utf8mb4"),
    }
    with closing(connect[store.sessions.engine.driver]()) as connection:
        cursor = connection.cursor()
        if store.dialect == "postgresql":
            cursor.execute("SET TIME ZONE 'Asia/Kolkata'")
        elif store.dialect == "mysql":
            cursor.execute("SET time_zone = '+05:30'")
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        else:
            cursor.execute("BEGIN")
        yield connection


def check_in(s: Snapshot, now: datetime) -> Snapshot:
    s = s.move_step("charge", StepEvent.SUCCEEDED, claim_token=None, lease_until=None, wake_at=None)
    return s.note(now, Action.OK, "step", step="charge")


def test_what_the_caller_rolls_back_was_never_there(store: SqlStore, caller: Any) -> None:
    run = a_run()

    inside = store.joined(caller)
    assert inside.insert_run(run) == (run, True)
    assert inside.put_signal(a_signal(run.id))[1]
    assert inside.load(run.id) is not None
    assert store.load(run.id) is None
    caller.rollback()

    assert store.load(run.id) is None
    assert store.signals(run.id) == []


def test_what_the_caller_commits_stays(store: SqlStore, caller: Any) -> None:
    run = a_run()

    inside = store.joined(caller)
    inside.insert_run(run)
    inside.transact(run.id, Adding(a_step(run.id)))
    assert inside.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9) is not None
    inside.transact(run.id, check_in)
    caller.commit()

    assert [step.status for step in store.steps(run.id)] == [StepStatus.DONE]
    assert store.runs(RunFilter())[0].state_version == 3


def test_a_run_and_a_signal_that_are_there_do_not_spoil_the_callers_transaction(store: SqlStore, caller: Any) -> None:
    run = a_run()
    store.insert_run(run)
    store.put_signal(a_signal(run.id))
    other = a_run()

    inside = store.joined(caller)
    assert inside.insert_run(run) == (run, False)
    assert not inside.put_signal(a_signal(run.id))[1]
    assert inside.insert_run(other)[1]
    caller.commit()

    assert store.load(other.id) is not None


def test_the_time_is_the_same_in_the_callers_zone(store: SqlStore, caller: Any) -> None:
    inside = store.joined(caller)

    before, between, after = store.now(), inside.now(), store.now()

    assert before - SECOND < between < after + SECOND


def test_a_step_renewed_in_between_is_read_again_within_the_callers_transaction(store: SqlStore, caller: Any) -> None:
    if store.dialect == "sqlite":
        pytest.skip("a writer has the database to itself")
    run = a_run()
    store.insert_run(run)
    store.transact(run.id, Adding(a_step(run.id)))
    store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)
    calls: list[datetime | None] = []

    def change(s: Snapshot, now: datetime) -> Snapshot:
        calls.append(s.steps["charge"].lease_until)
        if len(calls) == 1:
            assert store.renew(run.id, 1, "charge", token="t", lease_s=60) is not None
        return check_in(s, now)

    done = store.joined(caller).transact(run.id, change)
    caller.commit()

    assert len(calls) == 2
    assert done is not None and done.new.run.state_version == 3
    assert [row.seq for row in store.history(run.id)] == [1]


def test_a_session_and_a_connection_of_sqlalchemy_will_do(store: SqlStore) -> None:
    engine = create_engine(make_url(str(store.sessions.engine.url.render_as_string(hide_password=False))))
    first, second = a_run(), a_run()

    with Session(engine) as session:
        store.joined(session).insert_run(first)
        session.commit()
    with engine.connect() as connection:
        store.joined(connection).insert_run(second)
        connection.rollback()
    engine.dispose()

    assert [run.id for run in store.runs(RunFilter())] == [first.id]


def test_missing_tables_are_told(store: SqlStore, caller: Any) -> None:
    other = open_store(store.sessions.engine.url.render_as_string(hide_password=False), table_prefix="none_")

    with pytest.raises(SchemaOutdated, match="saga migrate"):
        other.joined(caller).load("any")

    other.close()


def test_a_database_that_only_reads_is_as_good_as_out_of_reach(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/saga.db")
    migrate(store)
    readonly = open_store(f"sqlite:///file:{tmp_path}/saga.db?mode=ro&uri=true")

    with pytest.raises(StoreUnavailable, match="readonly"):
        readonly.insert_run(a_run())

    assert store.runs(RunFilter()) == []
    readonly.close()
    store.close()
