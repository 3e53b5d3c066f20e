"""A transactional step: its writes and its checkpoint are there together, or neither is."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Task
from celery.exceptions import SoftTimeLimitExceeded
from sqlalchemy import delete, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from celery_saga import DefinitionError, Retry, Run, RunHandle, SagaError, current_step, saga, step
from celery_saga.core.status import StepStatus
from tests.transactional.bank import Bank, ledger, write


def of_one_step(bank: Bank, task: Any, **options: Any) -> RunHandle[Any]:
    """A run with one transactional step, as far as it has come."""

    @saga(name="tx-one-step", errors=[KeyError])
    def body(run: Run) -> Any:
        return run.step(task.si(), name="pay", transactional=True, **options)

    return bank.add(body).start()


def test_the_tasks_writes_and_its_checkpoint_commit_together(bank: Bank) -> None:
    seen: list[Any] = []

    @bank.task("pays")
    def pays() -> str:
        write(current_step.connection, "paid")
        if not bank.is_in_memory:
            seen.append(bank.words())
        return "done"

    run = of_one_step(bank, pays)

    assert run.result == "done"
    assert bank.words() == ["paid"]
    assert seen in ([], [[]])


def test_what_a_failing_task_wrote_is_rolled_back_and_counts_as_one_failure(bank: Bank) -> None:
    @bank.task("fails_once")
    def fails_once() -> None:
        write(current_step.connection, f"attempt {current_step.attempt}")
        if current_step.attempt == 1:
            raise KeyError("again")

    run = of_one_step(bank, fails_once, retry=Retry(3, delay=0))

    assert run.status == "completed"
    assert bank.words() == ["attempt 2"]
    assert bank.step(run.id, "pay").failures == 1


def test_a_task_that_gives_up_leaves_nothing_and_needs_no_undo(bank: Bank) -> None:
    @bank.task("fails")
    def fails() -> None:
        write(current_step.connection, "never")
        raise KeyError("no")

    @bank.task("undoes")
    def undoes() -> None:
        write(current_step.connection, "undone")

    run = of_one_step(bank, fails, undo=undoes.si())

    assert run.status == "failed"
    assert bank.words() == []


def test_a_result_that_cannot_be_stored_rolls_the_writes_back_for_certain(bank: Bank) -> None:
    @bank.task("returns_junk")
    def returns_junk() -> Any:
        write(current_step.connection, "never")
        return object()

    @bank.task("undoes_junk")
    def undoes_junk() -> None:
        write(current_step.connection, "undone")

    run = of_one_step(bank, returns_junk, undo=undoes_junk.si())

    failed = bank.step(run.id, "pay")
    assert failed.status is StepStatus.FAILED
    assert not failed.maybe
    assert bank.words() == []


def test_asking_celery_for_a_retry_rolls_back(bank: Bank) -> None:
    @bank.task("asks_again", bind=True, max_retries=3)
    def asks_again(self: Task) -> None:
        write(current_step.connection, f"attempt {current_step.attempt}")
        if current_step.attempt == 1:
            raise self.retry(countdown=0)
        if current_step.attempt == 2:
            self.retry(countdown=0, throw=False)

    run = of_one_step(bank, asks_again)

    assert run.status == "completed"
    assert bank.words() == ["attempt 3"]


def test_a_soft_time_limit_rolls_back_and_leaves_no_doubt(bank: Bank) -> None:
    @bank.task("too_slow")
    def too_slow() -> None:
        write(current_step.connection, "never")
        raise SoftTimeLimitExceeded

    run = of_one_step(bank, too_slow)

    assert not bank.step(run.id, "pay").maybe
    assert bank.words() == []


@pytest.mark.parametrize("how", ["commit", "rollback", "close", "COMMIT", "transaction"])
def test_a_task_cannot_end_the_transaction_itself(bank: Bank, how: str) -> None:
    @bank.task("ends_it")
    def ends_it() -> None:
        connection = current_step.connection
        write(connection, "never")
        if how == "COMMIT":
            connection.execute(text("COMMIT"))
        elif how == "transaction":
            connection.get_transaction().commit()
        else:
            getattr(connection, how)()

    run = of_one_step(bank, ends_it)

    error = bank.step(run.id, "pay").error
    assert error is not None and "commits with its checkpoint" in error.message
    assert bank.words() == []


def test_a_task_that_swallows_the_refused_commit_fails_all_the_same(bank: Bank) -> None:
    @bank.task("swallows")
    def swallows() -> str:
        write(current_step.connection, "never")
        try:
            current_step.connection.commit()
        except SagaError:
            return "so what"
        return "committed"

    run = of_one_step(bank, swallows)

    assert bank.step(run.id, "pay").status is StepStatus.FAILED
    assert bank.words() == []


def test_a_session_of_the_orm_writes_in_it(bank: Bank) -> None:
    @bank.task("orm")
    def orm() -> None:
        with Session(bind=current_step.connection) as session:
            session.execute(ledger.insert().values(word="by the session"))
            session.commit()
        if current_step.attempt == 1:
            raise KeyError("again")

    of_one_step(bank, orm, retry=Retry(3, delay=0))

    assert bank.words() == ["by the session"]


def test_a_part_that_may_fail_goes_into_a_savepoint(bank: Bank) -> None:
    @bank.task("careful")
    def careful() -> None:
        write(current_step.connection, "first", "x")
        try:
            with current_step.connection.begin_nested():
                write(current_step.connection, "second", "x")
        except IntegrityError:
            write(current_step.connection, "third")

    run = of_one_step(bank, careful)

    assert run.status == "completed"
    assert bank.words() == ["first", "third"]


def test_going_on_after_an_error_of_the_database_is_told_clearly(postgresql_bank: Bank) -> None:
    bank = postgresql_bank

    @bank.task("careless")
    def careless() -> str:
        write(current_step.connection, "first", "x")
        try:
            write(current_step.connection, "second", "x")
        except IntegrityError:
            return "so what"
        return "unique"

    run = of_one_step(bank, careless)

    error = bank.step(run.id, "pay").error
    assert error is not None and "begin_nested" in error.message and "went on" in error.message
    assert bank.words() == []


def test_the_undo_of_a_transactional_step_is_transactional_too(bank: Bank) -> None:
    @bank.task("pays_first")
    def pays_first() -> str:
        write(current_step.connection, "paid")
        return "paid"

    @bank.task("pays_back")
    def pays_back(word: str) -> None:
        current_step.connection.execute(delete(ledger).where(ledger.c.word == word))
        write(current_step.connection, "paid back")

    @bank.task("refuses")
    def refuses() -> None:
        raise KeyError("no")

    @saga(name="tx-undone", errors=[KeyError])
    def body(run: Run) -> None:
        run.step(step(pays_first.si(), undo=pays_back, transactional=True))
        run.step(refuses.si())

    run = bank.add(body).start()

    assert run.status == "failed"
    assert bank.words() == ["paid back"]


def test_the_connection_is_not_there_in_other_steps(memory_bank: Bank) -> None:
    @memory_bank.task("plain")
    def plain() -> str:
        try:
            return str(current_step.connection)
        except SagaError as error:
            return str(error)

    @saga(name="tx-plain")
    def body(run: Run) -> str:
        return run.step(plain.si())

    assert "transactional=True" in memory_bank.add(body).start().result
    with pytest.raises(SagaError, match="outside a step"):
        current_step.connection  # noqa: B018


def test_a_step_of_a_worker_without_us_cannot_be_transactional(memory_bank: Bank) -> None:
    @memory_bank.task("elsewhere")
    def elsewhere() -> None:
        raise AssertionError("never called")

    with pytest.raises(DefinitionError, match="remote=True"):
        step(elsewhere.si(), transactional=True, remote=True, timeout=5)
    with pytest.raises(DefinitionError, match="remote=True"):
        step(step(elsewhere.si(), transactional=True), remote=True, timeout=5)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_second_transaction_on_sqlite_is_refused_instead_of_waiting_for_itself(where: str, tmp_path: Any) -> None:
    bank = Bank("sqlite://" if where == "memory" else f"sqlite:///{tmp_path}/bank.db")

    @saga(name="tx-other")
    def other(run: Run) -> None:
        pass

    bank.add(other)

    @bank.task("starts_another")
    def starts_another() -> None:
        other.start()

    run = of_one_step(bank, starts_another)

    error = bank.step(run.id, "pay").error
    bank.close()
    assert error is not None and "current_step.connection" in error.message


def test_a_statement_with_which_mariadb_would_commit_is_refused(mariadb_bank: Bank) -> None:
    @mariadb_bank.task("makes_a_table")
    def makes_a_table() -> None:
        write(current_step.connection, "never")
        current_step.connection.execute(text("CREATE TEMPORARY TABLE fine (id INTEGER)"))
        current_step.connection.execute(text("CREATE TABLE more (id INTEGER)"))

    run = of_one_step(mariadb_bank, makes_a_table)

    error = mariadb_bank.step(run.id, "pay").error
    assert error is not None and "CREATE would commit it" in error.message
    assert mariadb_bank.words() == []
