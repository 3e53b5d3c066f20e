"""Transactional steps when the database or another process gets in between."""

from __future__ import annotations

import threading
from typing import Any

import psycopg2
import pytest
from sqlalchemy import Connection, text, update

from celery_saga import Run, RunHandle, current_step, saga
from celery_saga.core.status import StepStatus
from tests.servers import PrivatePostgres
from tests.transactional.bank import Bank, ledger, write

CONFLICT = {
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$",
    "mysql": "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'again'",
}


def of_one_step(bank: Bank, task: Any, **options: Any) -> RunHandle[Any]:
    @saga(name="tx-trouble", errors=[KeyError])
    def body(run: Run) -> Any:
        return run.step(task.si(), name="pay", transactional=True, **options)

    return bank.add(body).start()


def conflict(connection: Connection) -> None:
    connection.execute(text(CONFLICT[connection.dialect.name]))


def end_of(bank: Bank) -> None:
    """What a sweeper does to an attempt whose lease is over."""
    assert bank.saga.engine.end_attempt(current_step.run_id, current_step.step, None)


def kill(bank: Bank, pid: int) -> None:
    with bank.engine.connect() as other:
        other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})


def pid_of(connection: Connection) -> int:
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def test_a_conflict_repeats_the_task_and_counts_nothing(served_bank: Bank) -> None:
    calls: list[int] = []

    @served_bank.task("meets_conflicts")
    def meets_conflicts() -> None:
        calls.append(current_step.attempt)
        write(current_step.connection, f"call {len(calls)}")
        if len(calls) < 3:
            conflict(current_step.connection)

    run = of_one_step(served_bank, meets_conflicts)

    done = served_bank.step(run.id, "pay")
    assert (done.status, done.attempt, done.failures) == (StepStatus.DONE, 1, 0)
    assert calls == [1, 1, 1]
    assert served_bank.words() == ["call 3"]


def test_conflicts_without_end_are_a_failure_at_last(postgresql_bank: Bank) -> None:
    calls: list[int] = []

    @postgresql_bank.task("only_conflicts")
    def only_conflicts() -> None:
        calls.append(current_step.attempt)
        conflict(current_step.connection)

    run = of_one_step(postgresql_bank, only_conflicts)

    failed = postgresql_bank.step(run.id, "pay")
    assert (failed.status, failed.failures, len(calls)) == (StepStatus.FAILED, 1, 10)
    assert not failed.maybe


def test_a_deadlock_that_the_task_swallowed_leaves_no_half_of_its_writes(mariadb_bank: Bank) -> None:
    bank = mariadb_bank
    with bank.engine.begin() as connection:
        for word in ("a", "b", "c"):
            write(connection, word)
    calls: list[str] = []
    other = bank.engine.connect()
    other.execute(update(ledger).where(ledger.c.id.in_([2, 3])).values(word="taken"))
    for number in range(20):  # the victim is who has written less
        write(other, f"heavy {number}")

    def touch_a() -> None:
        other.execute(update(ledger).where(ledger.c.id == 1).values(word="taken"))
        other.rollback()

    @bank.task("deadlocked")
    def deadlocked() -> None:
        connection = current_step.connection
        calls.append("call")
        write(connection, f"before {len(calls)}")
        if len(calls) > 1:
            return
        connection.execute(update(ledger).where(ledger.c.id == 1).values(word="mine"))
        thread = threading.Thread(target=touch_a)
        thread.start()
        try:
            connection.execute(update(ledger).where(ledger.c.id == 2).values(word="mine"))
        except Exception:  # noqa: BLE001 - what careless tasks do
            calls.append("swallowed")
        thread.join()
        write(connection, "after")

    run = of_one_step(bank, deadlocked)
    other.close()

    assert run.status == "completed"
    assert calls == ["call", "swallowed", "call"]
    assert bank.words() == ["a", "b", "c", "before 3"]


def test_whoever_lost_the_claim_loses_its_writes(served_bank: Bank) -> None:
    @served_bank.task("is_late")
    def is_late() -> str:
        write(current_step.connection, f"attempt {current_step.attempt}")
        if current_step.attempt == 1:
            end_of(served_bank)
        return f"attempt {current_step.attempt}"

    run = of_one_step(served_bank, is_late)

    assert run.result == "attempt 2"
    assert served_bank.words() == ["attempt 2"]
    assert served_bank.step(run.id, "pay").stalls == 1


def test_a_cancel_meanwhile_keeps_the_writes_and_undoes_them(served_bank: Bank) -> None:
    handles: list[Any] = []

    @served_bank.task("is_cancelled")
    def is_cancelled() -> None:
        write(current_step.connection, "paid")
        handles.append(served_bank.saga.engine.cancel(current_step.run_id))

    @served_bank.task("undoes_cancelled")
    def undoes_cancelled() -> None:
        write(current_step.connection, "undone")

    run = of_one_step(served_bank, is_cancelled, undo=undoes_cancelled.si())

    assert run.status == "cancelled"
    assert served_bank.words() == ["paid", "undone"]


def test_a_connection_lost_in_the_task_repeats_it(postgresql_bank: Bank) -> None:
    bank, calls = postgresql_bank, list[int]()

    @bank.task("loses_connection")
    def loses_connection() -> None:
        connection = current_step.connection
        calls.append(1)
        write(connection, f"call {len(calls)}")
        if len(calls) == 1:
            kill(bank, pid_of(connection))
            connection.execute(text("SELECT 1"))

    run = of_one_step(bank, loses_connection)

    assert run.status == "completed"
    assert bank.words() == ["call 2"]
    assert bank.step(run.id, "pay").failures == 0


def test_a_connection_lost_before_the_commit_repeats_the_task(postgresql_bank: Bank) -> None:
    bank, pids = postgresql_bank, list[int]()

    @bank.task("loses_commit")
    def loses_commit() -> None:
        pids.append(pid_of(current_step.connection))
        write(current_step.connection, f"call {len(pids)}")

    def trace(label: str) -> None:
        if label == "before:commit step" and len(pids) == 1:
            kill(bank, pids[0])

    bank.store.trace = trace
    run = of_one_step(bank, loses_commit)

    assert run.status == "completed"
    assert bank.words() == ["call 2"]


def test_an_answer_lost_after_the_commit_repeats_nothing(
    postgresql_bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, calls = postgresql_bank, list[int]()
    dialect: Any = bank.store.own_sessions.engine.dialect
    commit = dialect.do_commit

    @bank.task("loses_answer")
    def loses_answer() -> None:
        calls.append(1)
        write(current_step.connection, f"call {len(calls)}")

    def trace(label: str) -> None:
        if label == "before:commit step" and len(calls) == 1:
            monkeypatch.setattr(dialect, "do_commit", commits_without_an_answer)

    def commits_without_an_answer(connection: Any) -> None:
        monkeypatch.setattr(dialect, "do_commit", commit)
        commit(connection)
        raise psycopg2.OperationalError("server closed the connection unexpectedly")

    bank.store.trace = trace
    run = of_one_step(bank, loses_answer)

    assert run.status == "completed"
    assert bank.words() == ["call 1"]


def test_the_body_is_never_decided_while_the_transaction_is_open(bank: Bank) -> None:
    open_ones: list[bool] = []
    connections: list[Connection] = []

    @bank.task("is_watched")
    def is_watched() -> None:
        connections.append(current_step.connection)
        write(current_step.connection, "paid")

    @saga(name="tx-watched")
    def body(run: Run) -> None:
        open_ones.append(any(not each.closed and each.in_transaction() for each in connections))
        run.step(is_watched.si(), transactional=True)

    run = bank.add(body).start()

    assert run.status == "completed"
    assert open_ones == [False, False]


def test_attempts_that_ended_unseen_leave_no_doubt_and_need_no_undo(served_bank: Bank) -> None:
    @served_bank.task("is_always_late")
    def is_always_late() -> None:
        write(current_step.connection, "never")
        end_of(served_bank)

    @served_bank.task("undoes_nothing")
    def undoes_nothing() -> None:
        write(current_step.connection, "undone")

    run = of_one_step(served_bank, is_always_late, undo=undoes_nothing.si())

    lost = served_bank.step(run.id, "pay")
    assert (lost.status, lost.maybe) == (StepStatus.LOST, False)
    assert run.status == "failed"
    assert served_bank.words() == []


@pytest.mark.parametrize("when", ["in the task", "at the commit"])
def test_a_database_that_is_away_for_a_while_is_no_failure_of_the_task(
    private_postgres: PrivatePostgres, when: str
) -> None:
    bank, calls = Bank(private_postgres.url), list[str]()

    def away() -> None:
        private_postgres.kill()
        threading.Timer(7.0, private_postgres.start).start()  # longer than the store is patient

    @bank.task("outlasts")
    def outlasts() -> None:
        calls.append("call")
        write(current_step.connection, f"call {len(calls)}")
        if when == "in the task" and len(calls) == 1:
            away()
            write(current_step.connection, "never")

    def trace(label: str) -> None:
        if when == "at the commit" and label == "before:commit step" and len(calls) == 1:
            away()

    bank.store.trace = trace
    run = of_one_step(bank, outlasts, undo=outlasts.si())  # with an undo, the claim outlasts the server's death too

    assert run.status == "completed"
    assert bank.step(run.id, "pay").failures == 0
    bank.engine.dispose()
    assert bank.words() == ["call 2"]
    bank.close()
