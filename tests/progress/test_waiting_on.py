"""What a run waits for, told by its handle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from celery_saga import Retry, Run, RunHandle, Signal, saga
from tests.scenarios.house import House

GO = Signal("go", str)


@pytest.fixture
def house() -> Iterator[House]:
    with House("sqlite://") as built:
        yield built


def told(handle: RunHandle[None]) -> list[tuple[str, str]]:
    return [(each.kind.value, each.name) for each in handle.waiting_on]


def test_a_signal_and_a_timer_with_their_ends(house: House) -> None:
    @saga(name="waiting_signal")
    def waiting(run: Run) -> None:
        run.wait_signal(GO, timeout=60)
        run.sleep(3600, name="night")

    house.add(waiting)
    handle = waiting.start()
    house.drain()
    begun = house.now

    (wait,) = handle.waiting_on
    assert (wait.kind, wait.name, wait.since, wait.until) == ("signal", "go", begun, begun + timedelta(seconds=60))
    house.now += timedelta(seconds=10)
    handle.signal(GO, "on")
    house.drain()
    (wait,) = handle.waiting_on
    assert (wait.kind, wait.name, wait.since, wait.until) == (
        "timer",
        "night",
        house.now,
        house.now + timedelta(hours=1),
    )


def test_a_step_its_back_off_its_undo_and_a_person(house: House) -> None:
    fails = [True, True]

    @house.task("waiting.a")
    def a() -> None:
        pass

    @house.task("waiting.undo_a")
    def undo_a(result: None) -> None:
        if fails[0]:
            raise ConnectionError("away")

    @house.task("waiting.b")
    def b() -> None:
        raise LookupError("no")

    @saga(name="waiting_steps", errors=[LookupError])
    def waiting(run: Run) -> None:
        run.step(a.si(), undo=undo_a, undo_retry=Retry(max_attempts=2, delay=60, jitter=False))
        run.step(b.si(), retry=Retry(max_attempts=2, delay=30, jitter=False))

    house.add(waiting)
    handle = waiting.start()
    house.engine.coordinate(handle.id)
    house.messages.pop(0)
    assert told(handle) == [("step", "a")]
    claimed = house.claim_next()
    (wait,) = handle.waiting_on
    assert (wait.kind, wait.name, wait.until) == ("step", "a", None)
    house.finish(claimed)
    house.drain()
    (wait,) = handle.waiting_on
    assert (wait.kind, wait.name, wait.until) == ("step", "b", house.now + timedelta(seconds=30))

    house.advance(31)
    (wait,) = handle.waiting_on
    assert (wait.kind, wait.name) == ("undo", "a")
    house.advance(61)
    assert handle.status == "compensation_failed"
    assert told(handle) == [("person", "undo_failed")]


def test_a_parked_run_waits_for_a_person_since_it_was_parked(house: House) -> None:
    @saga(name="waiting_person")
    def waiting(run: Run) -> None:
        run.wait_signal(GO)

    house.add(waiting)
    handle = waiting.start()
    house.drain()
    house.now += timedelta(seconds=5)
    handle.suspend()
    parked = house.now
    house.now += timedelta(seconds=5)

    (wait,) = handle.waiting_on
    assert (wait.kind, wait.name, wait.since, wait.until) == ("person", "operator", parked, None)
    handle.resume()
    house.drain()
    assert told(handle) == [("signal", "go")]


def test_a_start_that_was_put_off_is_a_timer_and_an_end_is_nothing(house: House) -> None:
    @saga(name="waiting_start")
    def waiting(run: Run) -> None:
        pass

    house.add(waiting)
    handle = waiting.options(countdown=60).start()

    (wait,) = handle.waiting_on
    assert (wait.kind, wait.name, wait.until) == ("timer", "start", house.now + timedelta(seconds=60))
    house.advance(61)
    assert (handle.status, handle.waiting_on) == ("completed", [])


def test_a_child_what_its_parts_wait_for_and_a_child_that_undoes_itself(house: House) -> None:
    @house.task("waiting.child_undo")
    def undo() -> None:
        pass

    @house.task("waiting.child_work")
    def work() -> None:
        pass

    @saga(name="waiting_child")
    def child(run: Run) -> None:
        run.step(work.si(), undo=undo.si())
        run.wait_signal(GO)

    @saga(name="waiting_parent", errors=[LookupError])
    def parent(run: Run) -> None:
        run.group([lambda run: run.wait_signal("first"), lambda run: run.sleep(60)])
        run.child(child)
        raise LookupError("all for nothing")

    house.add(child, parent)
    handle = parent.start()
    house.drain()
    assert told(handle) == [("signal", "first"), ("timer", "group[1]/sleep")]

    handle.signal("first")
    house.advance(61)
    assert told(handle) == [("child", "waiting_child")]

    child.get(next(x.task_id for x in handle.steps() if x.kind == "child") or "").signal(GO, "on")
    while house.messages and handle.status != "compensating":
        house.deliver(house.messages.pop(0))
    assert told(handle) == [("undo", "waiting_child")]
    house.drain()
    assert (handle.status, told(handle)) == ("failed", [])
