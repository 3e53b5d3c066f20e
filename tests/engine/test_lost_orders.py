"""The database crashes right after a step was ordered, before that was flushed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from celery_saga import Run, current_step, saga
from celery_saga.engine.ports import Message, StepMessage
from tests.scenarios.house import House, Place
from tests.servers import PrivatePostgres

pytestmark = [pytest.mark.servers, pytest.mark.heavy]


@pytest.fixture
def late() -> Iterator[PrivatePostgres]:
    """A server that flushes nothing by itself for ten seconds."""
    with PrivatePostgres(settings={"wal_writer_delay": "10s"}) as server:
        yield server


class Unlucky(House):
    """Its database crashes when the first step's message is sent, or while that step is executed."""

    def __init__(self, place: Place, late: PrivatePostgres) -> None:
        super().__init__(place)
        self._late, self.crashes = late, 0

    def crash(self) -> None:
        """Once."""
        if not self.crashes:
            self.crashes += 1
            self._late.kill()
            self._late.start()


class CrashesWhenSent(Unlucky):
    """Nobody has claimed the step."""

    def publish(self, messages: Sequence[Message]) -> int:
        if any(isinstance(each, StepMessage) for each in messages):
            self.crash()
        return super().publish(messages)


def _runs_two(house: Unlucky, *, crashes_inside: bool, has_undo: bool) -> list[str]:
    """The idempotency keys of all attempts of a run of two steps, at its end."""
    keys: list[str] = []

    @house.task("lost_orders.work")
    def work(word: str) -> str:
        keys.append(current_step.idempotency_key)
        if crashes_inside:
            house.crash()
        return word

    @house.task("lost_orders.back")
    def back(word: str) -> None:
        """Never called."""

    @saga(name="lost-orders", dispatch="broker")
    def lost(run: Run) -> list[str]:
        return [run.step(work.si(word), name=word, undo=back if has_undo else None) for word in ("a", "b")]

    house.add(lost)
    run = lost.start()
    house.drain()
    assert bool(house.store.steps(run.id)) is has_undo
    house.advance(40)

    assert run.refresh().result == ["a", "b"]
    assert house.actions(run.id)[-3:] == ["ok", "ok", "end"]
    assert house.crashes == 1
    house.store.close()
    return [key.rpartition(":")[2] for key in keys]


def test_an_order_that_is_lost_with_the_database_is_given_again(late: PrivatePostgres) -> None:
    with CrashesWhenSent(Place(late.url), late) as house:
        assert _runs_two(house, crashes_inside=False, has_undo=False) == ["a", "b"]


def test_a_claim_of_a_step_with_an_undo_makes_its_order_durable(late: PrivatePostgres) -> None:
    with Unlucky(Place(late.url), late) as house:
        assert _runs_two(house, crashes_inside=True, has_undo=True) == ["a", "b"]
