"""What each call costs in statements, as the trace counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Connection, event

from celery_saga.core.attempts import may_claim_asynchronously
from celery_saga.core.orders import Call, StepSpec, UndoSpec
from celery_saga.core.records import Action, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.samples import Adding, a_run, a_step


@pytest.fixture
def store(postgresql_url: str) -> Iterator[SqlStore]:
    store = open_store(postgresql_url)
    migrate(store)
    yield store
    store.close()


@contextmanager
def told(store: SqlStore) -> Iterator[list[str]]:
    """The labels of the statements and commits inside."""
    labels: list[str] = []
    store.trace = lambda label: labels.append(label.removeprefix("before:")) if label[0] == "b" else None
    yield labels
    store.trace = None


@contextmanager
def counted(store: SqlStore) -> Iterator[list[str]]:
    """The labels of the statements and commits inside, which the driver's own count must agree with."""
    sent: list[str] = []

    def on_statement(conn: object, cursor: object, statement: str, *rest: object) -> None:
        sent.append(statement)

    event.listen(store.sessions.engine, "before_cursor_execute", on_statement)
    with told(store) as labels:
        yield labels
    event.remove(store.sessions.engine, "before_cursor_execute", on_statement)
    by_itself = [label for label in labels if not label.startswith(("commit", "rollback"))]
    assert len(sent) == len(
        [label for label in by_itself if not label.endswith("at once")]
    )  # those are the store's own


def check_in(s: Snapshot, now: datetime) -> Snapshot:
    s = s.move_step("charge", StepEvent.SUCCEEDED, claim_token=None, lease_until=None, wake_at=None, result_text="1")
    return s.with_step(a_step(s.run.id, "dispatch")).note(now, Action.OK, "step", step="charge")


def test_a_checkpoint_with_the_next_step_and_history_is_three_statements_and_a_commit(store: SqlStore) -> None:
    run = a_run()
    store.insert_run(run)
    store.transact(run.id, Adding(a_step(run.id)))

    with told(store) as claim:
        store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)
    with counted(store) as checkpoint:
        store.transact(run.id, check_in)

    assert claim == ["claim at once"]
    assert checkpoint == ["lock run", "load steps", "change rows", "commit transact"]


def test_on_what_the_claim_read_a_checkpoint_is_two_statements_and_a_commit(store: SqlStore) -> None:
    run = a_run()
    store.insert_run(run)
    store.transact(run.id, Adding(a_step(run.id)))
    claimed = store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)
    assert claimed is not None

    with counted(store) as checkpoint:
        store.transact(run.id, check_in, basis=claimed.snapshot)

    assert checkpoint == ["lock version", "change rows", "commit transact"]


def test_many_new_steps_cost_no_statement_more_than_one(store: SqlStore) -> None:
    run = a_run()
    store.insert_run(run)

    with counted(store) as labels:
        store.transact(run.id, Adding(*(a_step(run.id, f"part[{number}]") for number in range(50))))

    assert labels == ["lock run", "load steps", "update run", "insert steps", "commit transact"]


@pytest.mark.parametrize(
    ("call", "labels"),
    [
        (lambda store: store.pick_due(limit=10, hold_s=9), ["peek due"]),
        (lambda store: store.now(), ["read clock"]),
        (lambda store: store.renew("r", 1, "k", token="t", lease_s=9), ["renew lease", "rollback renew"]),
        (lambda store: store.load("r"), ["load at once"]),
        (lambda store: store.transact("r", lambda s, now: s), ["lock run", "rollback transact"]),
    ],
    ids=["pick_due", "now", "renew", "load", "transact"],
)
def test_where_there_is_nothing_one_statement_says_so(
    store: SqlStore, call: Callable[[SqlStore], object], labels: list[str]
) -> None:
    store.now()

    with counted(store) as seen:
        call(store)

    assert seen == labels


def test_an_idle_look_opens_no_transaction(store: SqlStore) -> None:
    store.now()
    begun: list[object] = []
    raw = store.sessions.engine.raw_connection()
    driver = raw.dbapi_connection
    raw.close()
    seen: list[bool] = []

    def on_statement(conn: object, cursor: object, *rest: object) -> None:
        seen.append(driver.autocommit)
        begun.append(cursor)

    event.listen(store.sessions.engine, "before_cursor_execute", on_statement)
    store.pick_due(limit=10, hold_s=9)

    assert seen == [True]
    assert driver.info.transaction_status == 0  # idle


@pytest.mark.parametrize(
    ("step", "level"),
    [
        ({}, "off"),
        ({"spec_text": StepSpec(undo=UndoSpec(Call("shop.refund"))).to_text()}, "on"),
        ({"kind": StepKind.UNDO}, "on"),
    ],
    ids=["without_undo", "with_undo", "undo"],
)
def test_only_a_claim_without_an_undo_may_be_lost_with_the_database(
    store: SqlStore, step: dict[str, Any], level: str
) -> None:
    run = a_run()
    store.insert_run(run)
    store.transact(run.id, Adding(a_step(run.id, **step)))
    store._quick = None  # as for runs in lanes
    levels: list[str] = []

    def on_commit(connection: Connection) -> None:
        levels.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar_one())

    event.listen(store.sessions.engine, "commit", on_commit)
    store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)
    store.transact(run.id, lambda s, now: s.note(now, Action.OK, "run"))

    assert levels == [level, "on"]
    assert may_claim_asynchronously(store.steps(run.id)[0]) is (level == "off")


def test_a_transaction_stopped_while_it_holds_a_run_loses_it_after_a_while(store: SqlStore) -> None:
    run = a_run()
    store.insert_run(run)
    limits: list[str] = []

    def on_commit(connection: Connection) -> None:
        limits.append(connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one())

    event.listen(store.sessions.engine, "commit", on_commit)
    store.transact(run.id, lambda s, now: s.note(now, Action.OK, "run"))
    store.insert_run(a_run())

    assert limits == ["1min", "0"]  # for the transition's own transaction alone
