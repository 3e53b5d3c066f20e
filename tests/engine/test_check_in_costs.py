"""What a step by message costs on PostgreSQL, and what is read all the same although nothing seems to have moved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga import Run, saga
from celery_saga.core.status import RunStatus
from tests.scenarios.house import House
from tests.servers import fresh_postgresql_database

_STEP = ["claim at once", "write at once"]
"""Each a transaction of its own, in one round trip."""


@pytest.fixture
def house() -> Iterator[House]:
    with fresh_postgresql_database("psycopg2") as url, House(url) as built:

        @built.task("costs.add")
        def add(number: int) -> int:
            return number + 1

        yield built


def test_a_step_costs_two_statements_that_commit_by_themselves(house: House) -> None:
    add = house.app.tasks["costs.add"]

    @saga(name="check_in_costs")
    def four(run: Run) -> int:
        number = 0
        for _ in range(4):
            number = run.step(add.si(number))
        return number

    house.add(four)
    run = four.start()
    house.deliver(house.messages.pop(0))
    each: list[list[str]] = []
    while house.messages:
        labels: list[str] = []
        house.store.trace = labels.append
        house.deliver(house.messages.pop(0))
        each.append([label.removeprefix("before:") for label in labels if label.startswith("before:")])
    house.store.trace = None

    assert run.wait(5) == 4
    assert each[:-1] == [_STEP] * 3
    assert each[-1] == _STEP


def test_a_signal_that_comes_while_a_step_is_executed_is_taken_by_the_wait_that_follows(house: House) -> None:
    add = house.app.tasks["costs.add"]

    @saga(name="check_in_costs_signal")
    def waits(run: Run) -> str:
        run.step(add.si(1))
        return str(run.wait_signal("go", timeout=3600))

    house.add(waits)
    run = waits.start()
    claimed = house.claim_next()
    run.signal("go", "now")
    house.drain()  # what the signal asks for meets no wait yet
    house.finish(claimed)
    house.drain()

    assert run.refresh().status is RunStatus.COMPLETED
    assert run.wait(5) == "now"


def test_a_cancel_that_comes_while_a_step_is_executed_is_seen_by_its_checkpoint(house: House) -> None:
    add = house.app.tasks["costs.add"]

    @saga(name="check_in_costs_cancel")
    def two(run: Run) -> None:
        run.step(add.si(1))
        run.step(add.si(2))

    house.add(two)
    run = two.start()
    claimed = house.claim_next()
    run.cancel(reason="wrong order")
    house.finish(claimed)
    house.drain()

    assert run.refresh().status is RunStatus.CANCELLED
    assert len([step for step in run.steps() if step.kind == "step"]) == 1
