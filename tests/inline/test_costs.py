"""What an inline step costs on PostgreSQL: which statements, and that they do not grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event

from celery_saga import Run, saga
from celery_saga.engine.ports import Limits
from tests.inline.parlour import Parlour

STEPS = 120
EACH = ["write at once"]


@pytest.fixture
def house(postgresql_url: str) -> Iterator[Parlour]:
    with Parlour(postgresql_url, limits=Limits(inline_slice_s=600.0)) as built:
        yield built


class Meter:
    """What the store did up to each step."""

    def __init__(self, house: Parlour) -> None:
        self.labels: list[str] = []
        self.rows: list[int] = []
        self.at: list[int] = []  # how many labels there were when a step was executed
        house.store.trace = self._saw
        event.listen(house.store.sessions.engine, "after_cursor_execute", self._executed)

    def _saw(self, label: str) -> None:
        moment, _, what = label.partition(":")
        if moment == "before":
            self.labels.append(what)

    def _executed(self, connection: Any, cursor: Any, *_: Any) -> None:
        self.rows.append(cursor.rowcount)

    def step(self) -> None:
        self.at.append(len(self.labels))

    def between(self, step: int) -> list[str]:
        """The statements from one step to the next."""
        return self.labels[self.at[step] : self.at[step + 1]]


def played(house: Parlour) -> Meter:
    """A run of inline steps."""
    meter = Meter(house)

    @house.task("costs.tick")
    def tick(n: int) -> int:
        meter.step()
        return n

    @saga(name="inline_costs", dispatch="inline")
    def costs(run: Run) -> None:
        for n in range(STEPS):
            run.step(tick.si(n))

    house.add(costs)
    costs.start()
    house.drain()
    return meter


def test_a_step_costs_one_commit_and_the_same_few_statements_however_many_went_before(house: Parlour) -> None:
    meter = played(house)

    assert len(meter.at) == STEPS
    assert [meter.between(n) for n in (1, 10, STEPS - 2)] == [EACH] * 3
    assert house.sent == ["run"]


def test_a_whole_run_loads_its_steps_at_its_beginning_and_at_its_end(house: Parlour) -> None:
    meter = played(house)

    large = [n for n, rows in enumerate(meter.rows) if rows > 2]
    assert len(large) <= 2
