"""One store over forks, threads, lost servers and strange URLs."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.exc import OperationalError

from celery_saga.core.records import Action
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent
from celery_saga.errors import DefinitionError, StoreUnavailable
from celery_saga.store import SqlStore, migrate, open_store, schema_state
from celery_saga.store.session import Tx
from celery_saga.testing.samples import FAR_AHEAD, SECOND, Adding, a_run, a_step
from tests.servers import PrivatePostgres


@pytest.fixture(params=["sqlite", "postgresql", "psycopg", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    server = request.param != "sqlite"
    url = request.getfixturevalue(f"{request.param}_url") if server else f"sqlite:///{tmp_path}/saga.db"
    store = open_store(url)
    migrate(store)
    yield store
    store.close()


def backend(store: SqlStore) -> object:
    """What tells one connection of a server from another."""
    if store.dialect == "sqlite":
        return os.getpid()
    name = "pg_backend_pid()" if store.dialect == "postgresql" else "CONNECTION_ID()"
    return store.sessions.read("backend", lambda tx: tx.run("backend", text(f"SELECT {name}")).scalar_one())


def note_often(store: SqlStore, run_id: str) -> None:
    for _ in range(20):
        assert store.transact(run_id, lambda s, now: s.note(now, Action.OK, "step")) is not None


def test_a_forked_child_has_connections_of_its_own_though_nobody_tells_it(store: SqlStore) -> None:
    run = a_run()
    store.insert_run(run)
    mine = backend(store)
    read, write = os.pipe()

    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            theirs = backend(store)
            note_often(store, run.id)
            os.write(write, repr(theirs).encode())
        finally:
            os._exit(0)
    os.close(write)
    note_often(store, run.id)
    with os.fdopen(read) as answer:
        theirs = answer.read()
    os.waitpid(child, 0)

    assert theirs not in {"", repr(mine)}
    assert backend(store) == mine
    assert [row.seq for row in store.history(run.id)] == list(range(1, 41))


def test_threads_of_one_process_work_side_by_side(store: SqlStore) -> None:
    run = a_run()
    store.insert_run(run)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: note_often(store, run.id), range(8)))

    assert [row.seq for row in store.history(run.id)] == list(range(1, 161))


def test_a_transaction_of_ours_is_read_committed(store: SqlStore) -> None:
    if store.dialect == "sqlite":
        pytest.skip("one writer at a time")
    ask = "SHOW transaction_isolation" if store.dialect == "postgresql" else "SELECT @@transaction_isolation"
    if store.dialect != "postgresql":
        ask = "SELECT @@tx_isolation"

    level = store.sessions.write("level", lambda tx: tx.run("level", text(ask)).scalar_one())

    assert level.lower().replace("-", " ") == "read committed"


def test_sqlite_keeps_every_commit_and_waits_for_other_writers(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/saga.db")
    with store.sessions.engine.connect() as connection:
        told = [connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("journal_mode", "synchronous")]
        busy_ms = connection.execute(text("PRAGMA busy_timeout")).scalar_one()

    assert told == ["wal", 2]
    assert busy_ms >= 30_000
    store.close()


def test_a_server_that_is_gone_is_told_in_bounded_time_and_found_again(private_postgres: PrivatePostgres) -> None:
    store = open_store(private_postgres.url, patience_s=1.0)
    migrate(store)
    run = a_run()
    store.insert_run(run)
    private_postgres.kill()

    began_s = time.monotonic()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        store.transact(run.id, lambda s, now: s.with_run(reason="x"))
    took_s = time.monotonic() - began_s
    private_postgres.start()
    done = store.transact(run.id, lambda s, now: s.with_run(reason="y"))

    assert took_s < 15
    assert done is not None and (done.old.run.reason, done.new.run.state_version) == (None, 2)
    store.close()


def test_a_restart_shorter_than_our_patience_is_not_noticed(private_postgres: PrivatePostgres) -> None:
    store = open_store(private_postgres.url, patience_s=30.0)
    migrate(store)
    run = a_run()
    store.insert_run(run)
    private_postgres.kill()

    starter = threading.Thread(target=private_postgres.start)
    starter.start()
    done = store.transact(run.id, lambda s, now: s.with_run(reason="x"))
    starter.join()

    assert done is not None and done.new.run.state_version == 2
    store.close()


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://h/d", "psycopg2"),
        ("postgres://h/d", "psycopg2"),
        ("postgresql+psycopg2://h/d", "psycopg2"),
        ("postgresql+psycopg://h/d", "psycopg"),
        ("mysql://h/d", "pymysql"),
        ("mariadb://h/d", "pymysql"),
        ("sqlite:///:memory:", "pysqlite"),
        ("sqlite://", "pysqlite"),
    ],
)
def test_a_url_without_a_driver_gets_ours(url: str, driver: str) -> None:
    store = open_store(url)

    assert store.sessions.engine.driver == driver
    store.close()


def test_another_database_is_refused_by_name() -> None:
    with pytest.raises(DefinitionError, match="oracle"):
        open_store("oracle://h/d")


def test_a_given_clock_is_the_time_of_everything(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/saga.db", clock=lambda: FAR_AHEAD)
    migrate(store)
    run = a_run(wake_at=FAR_AHEAD)
    store.insert_run(run)
    store.transact(run.id, Adding(a_step(run.id, wake_at=FAR_AHEAD + SECOND)))

    claimed = store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=30)

    assert store.now() == FAR_AHEAD
    assert claimed is not None and claimed.step.lease_until == FAR_AHEAD + 30 * SECOND
    assert [due.kind.value for due in store.pick_due(limit=9, hold_s=9)] == ["run"]
    store.close()


def test_no_payload_is_in_the_message_of_an_error(store: SqlStore) -> None:
    run = a_run()
    store.insert_run(run)

    with pytest.raises(Exception, match=r"range|large") as caught:
        store.transact(run.id, Adding(a_step(run.id, args_text='"secret"', ordinal=2**70)))

    assert "secret" not in str(caught.value)


def test_connections_killed_again_and_again_lose_and_repeat_nothing(store: SqlStore) -> None:
    if store.dialect == "sqlite":
        pytest.skip("there is no server that could cut a connection")
    run = a_run()
    store.insert_run(run)
    killer = open_store(store.sessions.engine.url.render_as_string(hide_password=False))
    contacts = 0

    def trace(label: str) -> None:
        nonlocal contacts
        contacts += label.startswith("before:")
        # More than one transaction has, so that each gets through at the second try at the latest.
        if label.startswith("before:") and contacts % 11 == 0:
            killed.append(killer.sessions.read("kill", _kill_others))

    killed: list[int] = []
    store.trace = trace
    for number in range(60):
        key, token = f"step{number}", f"token{number}"
        store.transact(run.id, Adding(a_step(run.id, key)))
        assert store.claim(run.id, 1, key, token=token, owner="o", lease_s=99) is not None
        store.transact(run.id, partial(_check_in, key=key, token=token))
    store.trace = None
    killer.close()

    assert sum(killed) > 50
    steps = store.steps(run.id)
    assert [(s.key, s.attempt, s.seq) for s in steps] == [(f"step{n}", 1, n + 1) for n in range(60)]
    assert [(row.seq, row.step) for row in store.history(run.id)] == [(n + 1, f"step{n}") for n in range(60)]
    loaded = store.load(run.id)
    assert loaded is not None and loaded.snapshot.run.state_version == 121


def _check_in(s: Snapshot, now: datetime, *, key: str, token: str) -> Snapshot:
    if s.steps[key].claim_token != token:
        return s
    s = s.move_step(key, StepEvent.SUCCEEDED, claim_token=None, lease_until=None, wake_at=None)
    return s.note(now, Action.OK, "step", step=key)


def _kill_others(tx: Tx) -> int:
    if tx.connection.dialect.name == "postgresql":
        words = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        count: int = tx.run("kill", text(words)).scalar_one()
        return count
    mine = tx.run("mine", text("SELECT CONNECTION_ID()")).scalar_one()
    words = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> :mine"
    others = tx.run("others", text(words), {"mine": mine}).scalars().all()
    for number in others:
        with suppress(OperationalError):  # it has ended by itself
            tx.run("kill", text(f"KILL CONNECTION {number}"))
    return len(others)


def test_sqlite_waits_for_a_foreign_writer(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/saga.db")
    migrate(store)
    run = a_run()
    store.insert_run(run)
    foreign = sqlite3.connect(tmp_path / "saga.db", isolation_level=None, check_same_thread=False)
    foreign.execute("BEGIN IMMEDIATE")

    def let_go() -> None:
        began_s = time.monotonic()
        while time.monotonic() - began_s < 1.0:
            assert store.load(run.id) is not None  # readers are not held up
        foreign.execute("COMMIT")

    thread = threading.Thread(target=let_go)
    thread.start()
    done = store.transact(run.id, lambda s, now: s.with_run(reason="x"))
    thread.join()
    foreign.close()

    assert done is not None and done.new.run.state_version == 2
    store.close()


def test_a_pool_of_the_users_choice_replaces_ours(postgresql_url: str) -> None:
    store = open_store(postgresql_url, engine_options={"poolclass": NullPool, "connect_args": {"connect_timeout": 3}})
    migrate(store)

    assert backend(store) != backend(store)  # a connection for each transaction
    store.close()


def test_mariadb_under_its_own_name_is_the_same_database(mariadb_url: str) -> None:
    by_mysql, by_mariadb = open_store(mariadb_url), open_store(mariadb_url.replace("mysql+pymysql:", "mariadb:"))
    migrate(by_mariadb)
    run = a_run(key="É ")
    by_mariadb.insert_run(run)

    assert by_mariadb.dialect == "mariadb"
    assert (schema_state(by_mysql), by_mysql.insert_run(run)) == ("current", (run, False))
    by_mysql.close()
    by_mariadb.close()
