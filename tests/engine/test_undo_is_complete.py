"""Ways on which an undo might get lost, come too early or come twice; each was found by breaking it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from celery_saga import IllegalTransition, InvalidPayload, Retry, Run, RunFailed, StepLost, current_step, saga
from tests.scenarios.house import House


class Sold(Exception):
    """Declared by the sagas below."""


@pytest.fixture
def house() -> Iterator[House]:
    """A house in memory."""
    with House("sqlite://") as built:
        yield built


class Works:
    """Tasks that tell what they were called for, and fail as often as they are told to."""

    def __init__(self, house: House, *names: str) -> None:
        self.house = house
        self.calls: list[str] = []
        self.keys: set[str] = set()
        self.fail: Counter[str] = Counter()
        self.tasks = {name: self._task(name) for name in names}

    def _task(self, name: str) -> Any:
        @self.house.task(f"complete.{name}")
        def work(result: object = None) -> str:
            self.calls.append(name)
            self.keys.add(current_step.idempotency_key)
            if self.fail[name] > 0:
                self.fail[name] -= 1
                raise Sold(name)
            return name

        return work

    def step(self, run: Run, name: str) -> Any:
        return run.step(self.tasks[name].si(), undo=self.tasks[f"undo_{name}"], undo_retry=Retry(1))


@pytest.fixture
def works(house: House) -> Works:
    """Three steps with undos."""
    return Works(house, "a", "b", "c", "undo_a", "undo_b", "undo_c")


def lose(house: House, run_id: str, key: str) -> None:
    """Let every attempt of a step end unseen."""
    for _ in range(house.engine.limits.max_stalls + 1):
        claimed = house.claim_next()
        assert claimed.step.key == key
        house.engine.end_attempt(run_id, key, claimed.step.claim_token)


def test_resume_undoes_what_was_done_after_the_step_it_does_again(house: House, works: Works) -> None:
    @saga(name="goes-another-way", errors=[Sold], on_failure="suspend")
    def body(run: Run) -> str:
        try:
            works.step(run, "a")
        except StepLost:
            works.step(run, "b")
            raise
        return "done"

    house.add(body)
    handle = body.start()
    lose(house, handle.id, "a")
    house.drain()
    assert (handle.status, works.calls) == ("suspended", ["undo_a", "b"])

    handle.resume()
    house.drain()

    assert works.calls == ["undo_a", "b", "undo_b", "a"]
    assert handle.refresh().wait(1) == "done"


def test_a_run_whose_used_up_undo_was_closed_by_hand_goes_on_to_its_end(house: House, works: Works) -> None:
    @saga(name="sleeps-after", errors=[Sold])
    def body(run: Run) -> str:
        works.step(run, "a")
        run.sleep(100)
        return "done"

    house.add(body)
    works.fail["undo_a"] = 1
    handle = body.start()
    lose(house, handle.id, "a")
    house.drain()
    assert house.engine.run_of(handle.id).reason == "undo_failed"

    handle.resolve_undo("a", outcome="done", by="me")
    house.drain()

    with pytest.raises(RunFailed):
        handle.wait(1)
    assert house.store.without_wake_up() == []


def test_closing_an_undo_keeps_the_timers_of_the_run(house: House, works: Works) -> None:
    @saga(name="goes-on", errors=[Sold])
    def body(run: Run) -> str:
        try:
            works.step(run, "a")
        except StepLost:
            run.sleep(100)
        return "done"

    house.add(body)
    handle = body.start()
    lose(house, handle.id, "a")
    house.drain()
    assert handle.status == "waiting"

    handle.suspend()
    handle.resume()
    house.advance(101)

    assert handle.refresh().wait(1) == "done"


def test_cancel_of_a_run_on_its_way_to_start_over_ends_it(house: House, works: Works) -> None:
    @saga(name="restarts", errors=[Sold])
    def body(run: Run) -> None:
        works.step(run, "a")
        works.step(run, "b")
        run.wait_signal("never")

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel(compensate=False)
    again = body.get(handle.id)
    again.retry(from_step="a")
    house.messages, held = [], house.messages

    answer = again.cancel()
    house.messages = held
    house.drain()

    assert answer["cancelled"] is True
    assert works.calls == ["a", "b", "undo_b", "undo_a"]
    assert body.get(handle.id).status == "cancelled"
    assert house.engine.run_of(handle.id).generation == 1


@pytest.mark.parametrize("hold", ["continue", "hold"])
def test_a_used_up_undo_on_the_way_forward_parks_the_run_until_a_person_acts(
    house: House, works: Works, hold: Any
) -> None:
    @saga(name="forgets", errors=[Sold], on_undo_failure=hold)
    def body(run: Run) -> str:
        try:
            works.step(run, "a")
        except StepLost:
            return "without"
        return "with"

    house.add(body)
    works.fail["undo_a"] = 1
    handle = body.start()
    lose(house, handle.id, "a")
    house.drain()
    assert (handle.status, house.engine.run_of(handle.id).reason) == ("suspended", "undo_failed")

    handle.retry_undo("a", by="me")
    house.drain()

    assert works.calls == ["undo_a", "undo_a"]
    assert handle.refresh().wait(1) == "without"


def test_a_step_that_was_undone_cannot_be_skipped(house: House, works: Works) -> None:
    @saga(name="undone", errors=[Sold], on_failure="suspend")
    def body(run: Run) -> None:
        works.step(run, "a")

    house.add(body)
    handle = body.start()
    lose(house, handle.id, "a")
    house.drain()

    with pytest.raises(IllegalTransition, match="undone already"):
        handle.skip("a")


def test_a_deadline_is_as_long_after_each_retry_as_it_was(house: House, works: Works) -> None:
    @saga(name="due", errors=[Sold], deadline=100)
    def body(run: Run) -> None:
        run.step(works.tasks["a"].si())

    house.add(body)
    works.fail["a"] = 9
    handle = body.start()
    for _ in range(3):
        house.drain()
        house.now += timedelta(seconds=7)
        body.get(handle.id).retry()
    run = house.engine.run_of(handle.id)

    assert run.deadline_at == house.now + timedelta(seconds=100)


def test_a_repeated_undo_waits_for_the_one_that_runs(house: House, works: Works) -> None:
    @saga(name="one-at-a-time", errors=[Sold])
    def body(run: Run) -> None:
        for name in ("a", "b", "c"):
            works.step(run, name)
        raise Sold("end")

    house.add(body)
    works.fail["undo_c"] = 1
    handle = body.start()
    while works.calls[-1:] != ["undo_c"]:
        house.deliver(house.messages.pop(0))
    running = house.claim_next()
    assert running.step.key == "b!undo"

    handle.retry_undo("c")
    live = [step.key for step in handle.steps() if step.status in ("scheduled", "running")]
    house.finish(running)
    house.drain()

    assert live == ["b!undo"]
    assert works.calls == ["a", "b", "c", "undo_c", "undo_b", "undo_c", "undo_a"]
    assert body.get(handle.id).status == "failed"


@pytest.mark.parametrize("wrong", [5, b"x", object()])
def test_who_and_why_are_texts(house: House, works: Works, wrong: Any) -> None:
    @saga(name="named")
    def body(run: Run) -> None:
        run.wait_signal("never")

    house.add(body)
    handle = body.start()

    with pytest.raises(InvalidPayload, match="by="):
        handle.cancel(by=wrong)

    assert handle.refresh().status == "queued"
