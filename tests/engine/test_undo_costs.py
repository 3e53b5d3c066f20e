"""What one undo costs does not grow with what the run has done: statements, and rows that they give, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event

from celery_saga import Run, StepFailed, saga
from celery_saga.engine.ports import StepMessage
from tests.scenarios.house import House

SMALL, LARGE = 8, 24


@pytest.fixture
def house(postgresql_url: str) -> Iterator[House]:
    """A house on PostgreSQL."""
    with House(postgresql_url) as built:
        yield built


class Undos:
    """Runs a saga and meters each of its undos: how many statements, and how many rows these gave."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.undone: list[int] = []
        self.cost: list[tuple[int, int]] = []
        event.listen(house.store.sessions.engine, "after_cursor_execute", self._saw)
        self._statements = self._rows = 0

    def _saw(self, _connection: Any, cursor: Any, *_: Any) -> None:
        self._statements += 1
        self._rows += cursor.rowcount if cursor.description else 0

    def deliver_all(self) -> None:
        messages = self.house.messages
        while messages:
            message = messages.pop(0)
            self._statements = self._rows = 0
            self.house.deliver(message)
            if isinstance(message, StepMessage) and message.step.key.endswith("!undo"):
                self.cost.append((self._statements, self._rows))


def _a_map(run: Run, do: Any, undo: Any, bad: Any, count: int) -> None:
    run.map(do, list(range(count)), undo=undo)
    run.step(bad.si())


def _a_long_body(run: Run, do: Any, undo: Any, bad: Any, count: int) -> None:
    for number in range(count):
        run.step(do.si(number), undo=undo)
    run.step(bad.si())


def _a_scope(run: Run, do: Any, undo: Any, bad: Any, count: int) -> None:
    try:
        with run.scope("ship"):
            run.map(do, list(range(count)), undo=undo)
            run.step(bad.si())
    except StepFailed:
        run.step(do.si(-1))


def _a_race(run: Run, do: Any, undo: Any, bad: Any, count: int) -> None:
    def loses(run: Run) -> None:
        run.map(do, list(range(count)), undo=undo)
        run.wait_signal("never")

    def wins(run: Run) -> None:
        run.wait_signal("go")

    run.race(loses=loses, wins=wins)
    run.step(do.si(-1))


def _undo_costs(house: House, body: Callable[..., None], count: int) -> list[tuple[int, int]]:
    undos = Undos(house)

    @house.task(f"undo_costs.do{count}")
    def do(number: int) -> int:
        return number

    @house.task(f"undo_costs.undo{count}")
    def undo(number: int) -> None:
        undos.undone.append(number)

    @house.task(f"undo_costs.bad{count}")
    def bad() -> None:
        raise LookupError("no such order")

    def whole(run: Run) -> None:
        body(run, do, undo, bad, count)

    made = saga(name=f"undo_costs{count}{body.__name__}")(whole)
    house.add(made)
    handle = made.start()
    undos.deliver_all()
    if body is _a_race:
        handle.signal("go")
        undos.deliver_all()

    assert handle.refresh().status.is_end
    assert undos.undone == list(reversed(range(count)))
    return undos.cost


@pytest.mark.parametrize("body", [_a_map, _a_long_body, _a_scope, _a_race], ids=lambda body: body.__name__)
def test_an_undo_costs_the_same_however_much_there_is_to_undo(house: House, body: Callable[..., None]) -> None:
    small, large = _undo_costs(house, body, SMALL), _undo_costs(house, body, LARGE)

    assert len(small) == SMALL and len(large) == LARGE
    assert set(large) == set(small)  # it differs only with what the run does meanwhile, and at the bottom of the stack
    assert max(rows for _, rows in large) <= 30
