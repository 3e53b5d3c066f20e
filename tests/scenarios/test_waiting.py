"""Waits: early signals, cancel, deadlines, sleeps, and waiting for a result."""

from __future__ import annotations

from datetime import timedelta

import pytest

from celery_saga import DeadlineExceeded, Run, RunFailed, SignalExpired, SignalTimeout, WaitTimeout, saga
from celery_saga.core.records import Action
from tests.scenarios.house import House


def test_a10_a_signal_sent_before_any_worker_looked_is_taken(house: House) -> None:
    @saga(name="approve")
    def approve(run: Run) -> dict[str, str]:
        by = run.wait_signal("approve", timeout=timedelta(days=7))
        return {"approvedBy": by["by"]}

    house.add(approve)
    handle = approve.start()
    kept = handle.signal("approve", {"by": "boss"})

    house.drain()

    assert kept == "kept"
    assert handle.wait(1) == {"approvedBy": "boss"}


def test_a11_cancel_ends_a_waiting_run_at_once_without_a_worker(house: House) -> None:
    ran: list[str] = []

    @house.task("later")
    def later() -> None:
        ran.append("later")

    @saga(name="waits")
    def waits(run: Run) -> None:
        run.sleep(timedelta(days=1))
        run.step(later.si())

    house.add(waits)
    handle = waits.start()
    house.drain()

    answer = handle.cancel()
    again = handle.cancel()
    house.advance(2 * 86_400)

    assert answer == again == {"cancelled": True, "status": "cancelled"}
    assert handle.refresh().status == "cancelled"
    assert house.actions(handle.id) == ["cancel"]
    assert ran == []


def test_a12_a_deadline_ends_a_waiting_run(house: House) -> None:
    ran: list[str] = []

    @house.task("later")
    def later() -> None:
        ran.append("later")

    @saga(name="waits", deadline=0.03)
    def waits(run: Run) -> None:
        run.sleep(timedelta(days=1))
        run.step(later.si())

    house.add(waits)
    handle = waits.start()
    house.drain()
    house.advance(0.05)

    assert handle.status == "failed"
    with pytest.raises(RunFailed) as caught:
        handle.wait(1)
    assert isinstance(caught.value.cause, DeadlineExceeded)
    assert caught.value.cause.code == "TIMEOUT"
    assert ran == []
    assert house.rows(handle.id, Action.OK) == 0


def test_a18_a_sleep_goes_on_with_the_remainder(house: House) -> None:
    @saga(name="sleeps")
    def sleeps(run: Run) -> str:
        run.sleep(0.4)
        return "slept"

    house.add(sleeps)
    handle = sleeps.start()
    house.drain()
    house.advance(0.3)
    house.engine.coordinate(handle.id)
    before = handle.refresh().status

    house.advance(0.11)

    assert before == "waiting"
    assert handle.refresh().status == "completed"


def test_a_wait_that_times_out_raises_in_the_body(house: House) -> None:
    @saga(name="impatient")
    def impatient(run: Run) -> str:
        try:
            run.wait_signal("never", timeout=10)
        except SignalTimeout:
            return "late"
        return "in time"

    house.add(impatient)
    handle = impatient.start()
    house.drain()
    house.advance(11)

    assert handle.wait(1) == "late"


def test_a_wait_with_a_default_gives_it_when_the_time_is_up(house: House) -> None:
    @saga(name="polite")
    def polite(run: Run) -> object:
        return run.wait_signal("never", timeout=10, default={"approved": False})

    house.add(polite)
    handle = polite.start()
    house.drain()
    house.advance(11)

    assert handle.wait(1) == {"approved": False}


def test_a23_waiting_without_a_worker_times_out_and_a_failure_brings_its_message(house: House) -> None:
    @house.task("boom")
    def boom() -> None:
        raise RuntimeError("boom")

    @saga(name="fails")
    def fails(run: Run) -> None:
        run.step(boom.si())

    house.add(fails)
    handle = fails.start()
    with pytest.raises(WaitTimeout):
        handle.wait(0.1)
    house.drain()

    with pytest.raises(RunFailed, match="boom"):
        handle.wait(1)


@pytest.mark.parametrize("pause", ["step", "sleep"])
def test_a_reminder_loop_loses_no_signal_between_two_waits(house: House, pause: str) -> None:
    @house.task("remind")
    def remind() -> None: ...

    @saga(name="reminds")
    def reminds(run: Run) -> str:
        while run.wait_signal("paid", timeout=10, default=None) is None:
            if pause == "step":
                run.step(remind.si())
            else:
                run.sleep(100)
        return "paid"

    house.add(reminds)
    handle = reminds.start()
    house.drain()
    house.now += timedelta(seconds=11)
    house.engine.coordinate(handle.id)
    if pause == "sleep":
        house.drain()

    answer = handle.signal("paid", True)
    house.drain()
    house.advance(101)

    assert answer == "kept"
    assert handle.wait(1) == "paid"


def test_a_signal_is_refused_once_the_run_waits_for_another(house: House) -> None:
    @saga(name="moves-on")
    def moves_on(run: Run) -> None:
        run.wait_signal("first", timeout=10, default=None)
        run.wait_signal("second")

    house.add(moves_on)
    handle = moves_on.start()
    house.drain()
    house.advance(11)

    with pytest.raises(SignalExpired, match="first"):
        handle.signal("first", True)

    assert house.store.signals(handle.id) == []
