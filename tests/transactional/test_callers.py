"""Runs started, signalled and cancelled inside a caller's transaction: together with it, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from celery_saga import (
    DefinitionError,
    IdempotencyConflict,
    InvalidPayload,
    Run,
    RunExists,
    RunNotFound,
    Saga,
    Signal,
    SignalDuplicate,
    SignalNotExpected,
    current_step,
    saga,
)
from celery_saga.core.records import Action
from celery_saga.core.status import RunStatus
from tests.transactional.bank import Bank, write


@pytest.fixture(params=["sqlite", "postgresql", "psycopg", "mariadb"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """On databases whose connections a caller can share."""
    is_file = request.param == "sqlite"
    bank = Bank(f"sqlite:///{tmp_path}/bank.db" if is_file else request.getfixturevalue(f"{request.param}_url"))
    yield bank
    bank.close()


@pytest.fixture
def sale(bank: Bank) -> Saga[..., Any]:
    """Notes its word, and waits where that says so."""

    @bank.task("notes")
    def notes(word: str) -> None:
        with bank.engine.begin() as connection:
            write(connection, word)

    @saga(name="tx-sale", key="{order}", signals=["go"])
    def body(run: Run, order: str, word: str = "sold") -> Any:
        run.step(notes.si(word), undo=notes.si("undone"))
        return run.wait_signal("go") if word == "waits" else word

    return bank.add(body)


def others_see(bank: Bank, run_id: str) -> bool:
    return bank.store.load(run_id) is not None


def test_a_run_is_there_with_the_callers_commit(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.begin() as connection:
        write(connection, "order")
        run = sale.options(connection=connection).start("o1")
        inside = (run.status, run.created, run.key, others_see(bank, run.id))

    assert inside == (RunStatus.QUEUED, True, "o1", False)
    assert run.status == "completed"
    assert run.wait(1) == "sold"
    assert bank.words() == ["order", "sold"]


def test_a_run_goes_with_the_callers_rollback(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.connect() as connection:
        write(connection, "order")
        run = sale.options(connection=connection).start("o1")
        connection.rollback()

    assert not others_see(bank, run.id)
    assert bank.words() == []
    with pytest.raises(RunNotFound, match="rolled back"):
        run.status  # noqa: B018


def test_a_savepoint_that_is_rolled_back_takes_its_run_along(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.begin() as connection:
        inside = sale.options(connection=connection)
        first = inside.start("o1", "first")
        with connection.begin_nested() as savepoint:
            second = inside.start("o2", "second")
            savepoint.rollback()
        with connection.begin_nested():
            third = inside.start("o3", "third")

    assert [first.status, third.status] == ["completed", "completed"]
    assert not others_see(bank, second.id)
    assert sorted(bank.words()) == ["first", "third"]
    with pytest.raises(RunNotFound):
        second.status  # noqa: B018


def test_a_session_of_the_orm_will_do(bank: Bank, sale: Saga[..., Any]) -> None:
    with Session(bank.engine) as session:
        lost = sale.options(connection=session).start("o1")
        session.rollback()
        kept = sale.options(connection=session).start("o2")
        before = kept.status
        session.commit()

        assert before == "queued"
        assert kept.status == "completed"
    assert not others_see(bank, lost.id)


def test_a_taken_key_leaves_the_callers_transaction_in_order(bank: Bank, sale: Saga[..., Any]) -> None:
    there = sale.start("o1")
    with bank.engine.begin() as connection:
        inside = sale.options(connection=connection)
        write(connection, "before")
        again = inside.start("o1")
        with pytest.raises(IdempotencyConflict):
            inside.start("o1", "another word")
        with pytest.raises(RunExists):
            inside.options(if_exists="raise").start("o1")
        with pytest.raises(DefinitionError, match="restart_failed"):
            inside.options(if_exists="restart_failed").start("o1")
        write(connection, "after")

    assert again.id == there.id
    assert not again.created
    assert bank.words() == ["sold", "before", "after"]


def test_waiting_inside_is_refused_at_once(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.begin() as connection:
        run = sale.options(connection=connection).start("o1")
        with pytest.raises(DefinitionError, match="Commit first"):
            run.wait()
        with pytest.raises(DefinitionError, match="Commit first"):
            asyncio.run(run.wait_async())
        with pytest.raises(DefinitionError, match="Commit first"):
            next(run.events())

    assert run.wait(1) == "sold"


def test_a_signal_is_sent_with_the_callers_commit(bank: Bank, sale: Saga[..., Any]) -> None:
    run = sale.start("o1", "waits")
    with bank.engine.begin() as connection:
        mine = sale.options(connection=connection).find(key="o1")
        answer = mine.signal("go", "yes", id="1")
        seen = bank.store.signals(run.id)
        with pytest.raises(SignalDuplicate):
            mine.signal("go", "yes", id="1")
        with pytest.raises(SignalNotExpected):
            mine.signal("gone")
        write(connection, "answered")

    assert (answer, seen) == ("kept", [])
    assert run.refresh().result == "yes"
    assert "answered" in bank.words()


def test_a_signal_goes_with_the_callers_rollback(bank: Bank, sale: Saga[..., Any]) -> None:
    run = sale.start("o1", "waits")
    with bank.engine.connect() as connection:
        mine = sale.options(connection=connection).get(run.id)
        mine.signal("go", "no")
        connection.rollback()

    assert bank.store.signals(run.id) == []
    assert run.refresh().status == "waiting"


def test_a_run_and_its_signal_can_come_in_one_transaction_in_either_order(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.begin() as connection:
        inside = sale.options(connection=connection)
        inside.find(key="o1").signal("go", "early")
        first = inside.start("o1", "waits")
        second = inside.start("o2", "waits")
        second.signal("go", "late")

    assert (first.refresh().result, second.refresh().result) == ("early", "late")


def test_a_cancel_is_done_with_the_callers_commit(bank: Bank, sale: Saga[..., Any]) -> None:
    run = sale.start("o1", "waits")
    with bank.engine.begin() as connection:
        mine = sale.options(connection=connection).get(run.id)
        first = mine.cancel(reason="no money", by="ann")
        again = mine.cancel()
        before = bank.saga.engine.run_of(run.id).status

    assert first == again == {"cancelled": True, "status": "waiting"}
    assert before == "waiting"
    assert run.refresh().status == "cancelled"
    assert bank.words() == ["waits", "undone"]
    cancels = [row for row in run.history() if row.action is Action.CANCEL]
    assert [(row.reason, row.by) for row in cancels] == [("no money", "ann")]


def test_a_cancel_goes_with_the_callers_rollback(bank: Bank, sale: Saga[..., Any]) -> None:
    run = sale.start("o1", "waits")
    with bank.engine.connect() as connection:
        sale.options(connection=connection).get(run.id).cancel()
        connection.rollback()

    run.signal("go", "on")
    assert run.refresh().status == "completed"


def test_a_cancel_without_undos_and_one_of_an_ended_run_say_what_they_do(bank: Bank, sale: Saga[..., Any]) -> None:
    ended, waits = sale.start("o1"), sale.start("o2", "waits")
    with bank.engine.begin() as connection:
        inside = sale.options(connection=connection)
        too_late = inside.get(ended.id).cancel()
        inside.get(waits.id).cancel(compensate=False)
        with pytest.raises(RunNotFound):
            inside.find(key="never").cancel()
        with pytest.raises(InvalidPayload):
            inside.get(waits.id).cancel(by=5)  # type: ignore[arg-type]

    assert too_late == {"cancelled": False, "status": "completed"}
    assert waits.refresh().status == "cancelled"
    assert "undone" not in bank.words()


def test_a_run_started_and_cancelled_in_one_transaction_does_nothing(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.begin() as connection:
        run = sale.options(connection=connection).start("o1")
        answer = run.cancel()

    assert answer == {"cancelled": True, "status": "queued"}
    assert run.status == "cancelled"
    assert bank.words() == []


def test_a_handle_belongs_to_one_transaction(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.connect() as connection:
        run = sale.options(connection=connection).start("o1", "waits")
        connection.commit()
        answer = run.signal("go", "later")

    assert answer in {"delivered", "kept"}
    assert run.refresh().result == "later"


def test_nothing_else_is_done_in_a_callers_transaction(bank: Bank, sale: Saga[..., Any]) -> None:
    run = sale.start("o1", "waits")
    with bank.engine.begin() as connection:
        mine = sale.options(connection=connection).get(run.id)
        for verb in (mine.suspend, mine.resume, mine.compensate, mine.retry):
            with pytest.raises(DefinitionError, match="nothing else"):
                verb()

    assert run.refresh().status == "waiting"


def test_rows_inserted_there_hold_up_nobody(served_bank: Bank) -> None:
    @served_bank.task("does_nothing")
    def does_nothing() -> None:
        pass

    @saga(name="tx-held-up")
    def body(run: Run) -> Any:
        run.step(does_nothing.si())
        return run.wait_signal("go")

    run = served_bank.add(body).start()
    with served_bank.engine.begin() as connection:
        mine = body.options(connection=connection).get(run.id)
        mine.signal("go", "theirs")
        mine.cancel()
        run.signal("go", "mine")
        meanwhile = run.refresh().status

    assert meanwhile == "completed"
    assert run.refresh().result == "mine"


def test_a_step_starts_another_run_exactly_once(bank: Bank, sale: Saga[..., Any]) -> None:
    @bank.task("orders")
    def orders() -> str:
        run = sale.options(connection=current_step.connection).start(f"of attempt {current_step.attempt}")
        if current_step.attempt == 1:
            raise KeyError("again")
        return run.id

    from celery_saga import Retry  # noqa: PLC0415

    @saga(name="tx-ordering")
    def body(run: Run) -> str:
        return str(run.step(orders.si(), transactional=True, retry=Retry(2, delay=0)))

    run = bank.add(body).start()

    assert sale.get(run.result or "").status == "completed"
    assert not others_see(bank, sale.find(key="of attempt 1").id)


@pytest.mark.parametrize("what", ["text", "engine", "async"])
def test_what_is_no_connection_is_refused(bank: Bank, sale: Saga[..., Any], what: str) -> None:
    class Async:
        sync_connection = None

    given = {"text": "postgresql://", "engine": bank.engine, "async": Async()}[what]

    with pytest.raises(DefinitionError, match="run_sync" if what == "async" else "SQLAlchemy connection"):
        sale.options(connection=given)


def test_a_closed_connection_and_one_to_another_database_are_refused(bank: Bank, sale: Saga[..., Any]) -> None:
    connection = bank.engine.connect()
    connection.close()
    elsewhere = create_engine("sqlite://" if bank.store.dialect != "sqlite" else "postgresql://")

    with pytest.raises(DefinitionError, match="closed"):
        sale.options(connection=connection).start("o1")
    if elsewhere.dialect.name == "sqlite":
        with elsewhere.connect() as other, pytest.raises(DefinitionError, match="goes to sqlite"):
            sale.options(connection=other).start("o1")
    with pytest.raises(DefinitionError, match="run_sync"), bank.engine.connect() as other:
        asyncio.run(sale.options(connection=other).start_async("o1"))
    elsewhere.dispose()


def test_a_signals_name_cannot_be_that_of_a_request(bank: Bank, sale: Saga[..., Any]) -> None:
    run = sale.start("o1", "waits")

    with pytest.raises(InvalidPayload, match="'!'"):
        run.signal("!cancel")
    with pytest.raises(DefinitionError, match="reserved"):
        Signal("!cancel")


def test_an_error_after_the_commit_is_not_the_callers(bank: Bank, sale: Saga[..., Any], caplog: Any) -> None:
    def fails(_messages: Any) -> int:
        raise RuntimeError("no broker")

    bank.saga.services.publisher.publish = fails  # type: ignore[method-assign]
    with bank.engine.begin() as connection:
        run = sale.options(connection=connection).start("o1")
        connection.execute(text("SELECT 1"))

    assert run.status == "queued"
    assert "a sweeper makes up" in caplog.text


def test_an_async_connection_lends_itself_by_run_sync(request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("psycopg_url")
    bank = Bank(url)

    @saga(name="tx-async", key="{order}")
    def body(run: Run, order: str) -> str:
        return order

    bank.add(body)

    async def order() -> None:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(write, "order")
            kept = await connection.run_sync(lambda c: body.options(connection=c).start("kept"))
        async with AsyncSession(engine) as session:
            lost = await session.run_sync(lambda s: body.options(connection=s).start("lost"))
            await session.rollback()
        await engine.dispose()
        assert await kept.wait_async(5) == "kept"
        assert not others_see(bank, lost.id)

    asyncio.run(order())
    bank.close()


def test_a_deadlock_is_the_callers_own_error(request: pytest.FixtureRequest) -> None:
    bank = Bank(request.getfixturevalue("mariadb_url"))

    @saga(name="tx-deadlock", key="{order}")
    def body(run: Run, order: str) -> None:
        pass

    bank.add(body)
    first, second = bank.engine.connect(), bank.engine.connect()
    body.options(connection=first).start("a")
    body.options(connection=second).start("b")
    for number in range(20):  # the victim is who has written less
        write(second, f"heavy {number}")
    other = threading.Thread(target=lambda: body.options(connection=second).start("a"))

    with pytest.raises(OperationalError, match="Deadlock"):
        other.start()
        body.options(connection=first).start("b")
    first.rollback()
    other.join()
    second.commit()

    assert [each.key for each in bank.saga.runs()] in (["a", "b"], ["b", "a"])
    first.close()
    second.close()
    bank.close()
