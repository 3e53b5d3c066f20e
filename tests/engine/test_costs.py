"""What a step, a start and an idle tick cost on PostgreSQL: commits, statements, messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from celery_saga import Run, saga
from tests.scenarios.house import House


@pytest.fixture
def house(postgresql_url: str) -> Iterator[House]:
    """A house on PostgreSQL."""
    with House(postgresql_url) as built:
        yield built


class Meter:
    """Counts what the store does, from the moment it is made."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.labels: Counter[str] = Counter()
        self.messages = 0
        house.store.trace = self._saw
        self._publish = house.publish
        house.publish = self._sent  # type: ignore[method-assign]

    def _saw(self, label: str) -> None:
        moment, _, what = label.partition(":")
        if moment == "before":
            self.labels[what] += 1

    def _sent(self, messages: object) -> int:
        sent = self._publish(messages)  # type: ignore[arg-type]
        self.messages += sent
        return sent

    @property
    def commits(self) -> dict[str, int]:
        return {label: n for label, n in self.labels.items() if label.startswith("commit")}

    @property
    def statements(self) -> int:
        return sum(n for label, n in self.labels.items() if not label.startswith(("commit", "rollback")))


def _steps(house: House, count: int) -> str:
    @house.task("cost.noop")
    def noop(n: int) -> int:
        return n

    @saga(name="costs")
    def costs(run: Run) -> None:
        for n in range(count):
            run.step(noop.si(n))

    house.add(costs)
    return costs.start().id


def test_a_step_costs_one_durable_commit_one_claim_and_one_message(house: House) -> None:
    _steps(house, 10)
    meter = Meter(house)

    house.drain()

    # one decision before the first step; each step: its claim, and its checkpoint with the next order
    assert meter.labels["claim at once"] == 10
    assert meter.labels["write at once"] == 1 + 10
    assert meter.commits == {}
    assert meter.messages == 10
    assert meter.statements == 1 + 1 + 10 * 2  # the run is loaded once


def test_a_start_costs_one_statement_and_one_message(house: House) -> None:
    meter = Meter(house)

    _steps(house, 1)

    assert meter.labels == {"start at once": 1}
    assert meter.messages == 1


def test_an_idle_tick_of_the_sweeper_costs_one_statement(house: House) -> None:
    _steps(house, 3)
    house.drain()
    meter = Meter(house)

    house.engine.sweep()

    assert meter.statements == 1
    assert meter.commits == {}
