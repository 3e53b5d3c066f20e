"""Runs of a lane that are started inside a caller's transaction: they queue with its commit and lock nothing."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select

from celery_saga import Lane, Run, Saga, saga
from tests.transactional.bank import Bank, write

KINDS = ["sqlite", "postgresql", "mariadb"]


@pytest.fixture
def bank(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    """The database that the test names."""
    url = (
        f"sqlite:///{tmp_path}/bank.db"
        if request.param == "sqlite"
        else request.getfixturevalue(f"{request.param}_url")
    )
    bank = Bank(url)
    yield bank
    bank.close()


@pytest.fixture
def sale(bank: Bank) -> Saga[..., Any]:
    """Waits where that is its word, else notes it; one at a time."""

    @bank.task("lane_notes")
    def notes(word: str) -> None:
        with bank.engine.begin() as connection:
            write(connection, word)

    @saga(name="tx-lane-sale", key="{order}", lane=Lane("tx-till", hold="life"))
    def body(run: Run, order: str, word: str) -> None:
        run.step(notes.si(word))
        if word == "waits":
            run.wait_signal("go")

    return bank.add(body)


def _slots(bank: Bank) -> int:
    with bank.engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(bank.store.schema.slot)).scalar_one())


def _use(bank: Bank) -> tuple[int, int]:
    [load] = bank.store.lanes(["lane:tx-till"])
    return load.used, load.queued


@pytest.mark.parametrize("bank", KINDS, indirect=True)
def test_runs_of_a_lane_queue_with_the_callers_commit(bank: Bank, sale: Saga[..., Any]) -> None:
    holder = sale.start("o0", "waits")
    with bank.engine.begin() as connection:
        inside = sale.options(connection=connection)
        runs = [inside.start(f"o{n}", f"sold {n}") for n in (1, 2)]
        seen = (_slots(bank), [run.status.value for run in runs])

    assert seen == (1, ["queued", "queued"])
    assert (_slots(bank), _use(bank), bank.words()) == (3, (1, 2), ["waits"])

    holder.signal("go")

    assert [run.refresh().status for run in (holder, *runs)] == ["completed"] * 3
    assert bank.words() == ["waits", "sold 1", "sold 2"]
    assert _use(bank) == (0, 0)


@pytest.mark.parametrize("bank", KINDS, indirect=True)
def test_a_rollback_leaves_no_place_in_the_lane(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.connect() as connection:
        sale.options(connection=connection).start("o1", "lost")
        connection.rollback()
    assert _slots(bank) == 0

    assert sale.start("o2", "sold").status == "completed"
    assert bank.words() == ["sold"]


@pytest.mark.parametrize("bank", ["postgresql", "mariadb"], indirect=True)
def test_an_open_transaction_holds_up_nobody_else_in_the_lane(bank: Bank, sale: Saga[..., Any]) -> None:
    with bank.engine.begin() as connection:
        inside = sale.options(connection=connection).start("o1", "first asked")
        other = sale.start("o2", "first in")
        assert other.status == "completed"

    assert inside.status == "completed"
    assert bank.words() == ["first in", "first asked"]
