"""`run.continue_as_new()`: the same run, a new generation, nothing undone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_saga import IdempotencyConflict, Run, RunFailed, Saga, Signal, saga
from celery_saga.core import decision
from celery_saga.core.decision import Decision
from celery_saga.core.failure import Failure
from celery_saga.core.renewing import Renewed
from celery_saga.engine.previewing import preview
from tests.definition.passes import NOW, Passes
from tests.definition.tasks import charge
from tests.scenarios.house import House

ADD = Signal("add", int)


class Shop:
    """A subscription that is charged, and begins anew after each charge."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.calls: list[str] = []
        self.keys: list[str] = []

        @house.task("renewing.charge")
        def charge(key: str, month: int) -> str:
            self.calls.append(f"charge {month}")
            self.keys.append(key)
            return f"ch_{month}"

        @house.task("renewing.refund")
        def refund(charge_id: str) -> None:
            self.calls.append(f"refund {charge_id}")

        self.charge, self.refund = charge, refund

    def subscription(self, *, last: int = 3, **options: Any) -> Saga[[int], int]:
        @saga(name="subscription", **options)
        def subscription(run: Run, month: int) -> int:
            run.step(self.charge.si(run.idempotency_key("charge"), month), undo=self.refund)
            if month < last:
                run.continue_as_new(month + 1)
            return month

        self.house.add(subscription)
        return subscription


@pytest.fixture
def shop(house: House) -> Shop:
    return Shop(house)


def test_the_run_begins_again_with_new_input_and_a_waiter_gets_the_last_result(house: House, shop: Shop) -> None:
    handle = shop.subscription().start(1)
    house.drain()

    assert handle.wait(1) == 3
    assert shop.calls == ["charge 1", "charge 2", "charge 3"]
    run = house.engine.run_of(handle.id)
    assert (run.generation, run.input) == (3, {"month": 3})


def test_each_generation_has_its_steps_archived_and_keys_of_its_own(house: House, shop: Shop) -> None:
    handle = shop.subscription().start(1)
    house.drain()

    assert [(x.generation, x.key, x.result) for x in handle.steps()] == [
        (1, "charge", "ch_1"),
        (2, "charge", "ch_2"),
        (3, "charge", "ch_3"),
    ]
    assert shop.keys == [f"{handle.id}:{n}:charge" for n in (1, 2, 3)]
    rows = [x for x in handle.history() if x.action == "continue"]
    assert [(x.kind, x.generation, x.detail) for x in rows] == [("run", 2, "generation 2"), ("run", 3, "generation 3")]
    assert [x.seq for x in handle.history()] == list(range(1, len(handle.history()) + 1))


def test_a_failure_undoes_only_what_its_own_generation_did(house: House, shop: Shop) -> None:
    @saga(name="failing", errors=[LookupError])
    def failing(run: Run, month: int) -> None:
        run.step(shop.charge.si("k", month), undo=shop.refund)
        if month < 2:
            run.continue_as_new(month + 1)
        raise LookupError("no more")

    house.add(failing)
    handle = failing.start(1)
    house.drain()

    with pytest.raises(RunFailed):
        handle.wait(1)
    assert shop.calls == ["charge 1", "charge 2", "refund ch_2"]


def test_signals_that_nobody_took_are_kept(house: House) -> None:
    @saga(name="counter", signals=[ADD])
    def counter(run: Run, total: int, left: int) -> int:
        total += run.wait_signal(ADD)
        if left > 1:
            run.continue_as_new(total, left=left - 1)
        return total

    house.add(counter)
    handle = counter.start(0, 3)
    house.drain()
    for number in (1, 10, 100):
        handle.signal(ADD, number)
    house.drain()

    assert handle.wait(1) == 111
    assert house.engine.run_of(handle.id).generation == 3


def test_the_deadline_counts_on(house: House) -> None:
    @saga(name="renewing_deadline", deadline=timedelta(hours=1), signals=[ADD])
    def patient(run: Run, turn: int) -> None:
        run.wait_signal(ADD)
        run.continue_as_new(turn + 1)

    house.add(patient)
    handle = patient.start(1)
    house.drain()
    before = house.engine.run_of(handle.id).deadline_at
    house.advance(1800)
    handle.signal(ADD, 1)
    house.drain()

    assert house.engine.run_of(handle.id).generation == 2
    assert house.engine.run_of(handle.id).deadline_at == before
    house.advance(1900)
    assert handle.status == "failed"


def test_id_and_key_stay_and_another_start_is_compared_with_the_first_arguments(house: House, shop: Shop) -> None:
    subscription = shop.subscription(key=lambda month: "ann")
    handle = subscription.start(1)
    house.drain()

    again = subscription.start(1)

    assert (again.id, again.created, again.key) == (handle.id, False, "ann")
    with pytest.raises(IdempotencyConflict):
        subscription.start(3)


def test_a_cancel_afterwards_undoes_nothing_of_the_generations_before(house: House, shop: Shop) -> None:
    @saga(name="renewing_cancel", signals=[ADD])
    def waiting(run: Run, month: int) -> None:
        if month > 1:
            run.wait_signal(ADD)
        run.step(shop.charge.si("k", month), undo=shop.refund)
        run.continue_as_new(month + 1)

    house.add(waiting)
    handle = waiting.start(1)
    house.drain()
    assert handle.cancel() == {"cancelled": True, "status": "cancelled"}
    house.drain()

    assert shop.calls == ["charge 1"]


def test_a_message_of_the_generation_before_does_nothing(house: House, shop: Shop) -> None:
    @saga(name="renewing_late", signals=[ADD])
    def late(run: Run, month: int) -> None:
        run.step(shop.charge.si("k", month))
        if month == 2:
            run.wait_signal(ADD)
        run.continue_as_new(month + 1)

    house.add(late)
    handle = late.start(1)
    first = next(iter(house.messages))
    house.drain()
    step = next(x for x in handle.steps() if x.generation == 1)

    assert house.claim(step, "house:9") is None
    house.deliver(first)
    assert shop.calls == ["charge 1", "charge 2"]


def test_a_body_that_asks_for_less_than_is_recorded_parks_instead(house: House, shop: Shop) -> None:
    @saga(name="renewing_changed", signals=[ADD])
    def changed(run: Run, month: int) -> None:
        if len(shop.calls) < 1:
            run.step(shop.charge.si("k", month))
            run.wait_signal(ADD)
        run.continue_as_new(month + 1)

    house.add(changed)
    handle = changed.start(1)
    house.drain()

    foreseen = preview(house.store, house.registry, resend_s=30.0)
    handle.signal(ADD, 1)
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (run.reason, run.generation) == ("non_determinism", 1)
    assert [each.reason for each in foreseen] == ["non_determinism"]


def test_finally_blocks_order_nothing_on_the_way_out(house: House, shop: Shop) -> None:
    @saga(name="renewing_finally")
    def tidy(run: Run, month: int) -> int:
        try:
            if month < 2:
                run.continue_as_new(month + 1)
        finally:
            run.step(shop.charge.si("k", month))
        return month

    house.add(tidy)
    handle = tidy.start(1)
    house.drain()

    assert handle.wait(1) == 2
    assert shop.calls == ["charge 2"]


def test_a_run_that_continued_can_be_started_over_with_its_present_input(house: House, shop: Shop) -> None:
    handle = shop.subscription(last=2).start(1)
    house.drain()
    handle.compensate()
    house.drain()
    assert handle.refresh().status == "cancelled"

    handle.retry(from_step="charge")
    house.drain()

    assert handle.wait(1) == 2
    assert shop.calls == ["charge 1", "charge 2", "refund ch_2", "charge 2"]
    assert house.engine.run_of(handle.id).generation == 3


def bug_of(body: Any, *args: Any) -> Failure:
    raised = Passes(saga(body), *args).raised()
    assert not raised.declared
    return raised.error


def test_arguments_that_do_not_fit_are_a_bug_of_the_body() -> None:
    def renewing_wrong(run: Run, month: int) -> None:
        run.continue_as_new("soon")

    def renewing_none(run: Run, month: int) -> None:
        run.continue_as_new()

    assert "month: Input should be a valid integer" in bug_of(renewing_wrong, 1).message
    assert "missing a required argument: 'month'" in bug_of(renewing_none, 1).message


def test_the_function_of_a_record_cannot_ask_it() -> None:
    def renewing_record(run: Run) -> None:
        run.record("flag", run.continue_as_new)

    assert "run.continue_as_new() was called in the function of run.record('flag')" in bug_of(renewing_record).message


def test_a_body_that_swallows_it_is_told() -> None:
    def renewing_swallowed(run: Run) -> str:
        try:
            run.continue_as_new()
        except BaseException:
            return "swallowed"

    assert "swallowed its suspension" in bug_of(renewing_swallowed).message


def test_while_an_attempt_is_alive_the_run_waits_for_its_end() -> None:
    @saga(name="renewing_busy")
    def busy(run: Run, month: int) -> None:
        run.step(charge.si("k"))
        run.continue_as_new(month + 1)

    passes = Passes(busy, 1)
    passes.order()
    decided = Decision((), Renewed('{"month": 2}'))

    waiting = decision.apply(passes.snapshot, decided, NOW, 30.0)
    passes.done("charge", "ch")
    renewed = decision.apply(passes.snapshot, decided, NOW, 30.0)

    assert (waiting.run.generation, list(waiting.steps)) == (1, ["charge"])
    assert (renewed.run.generation, renewed.steps, renewed.run.input) == (2, {}, {"month": 2})
    assert renewed.woken
