"""Shields: a cancel or deadline waits until the last of them is left, and is then applied in that transaction."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from celery_saga import Run, Saga, saga
from celery_saga.core.records import Action
from tests.inline.parlour import Parlour
from tests.scenarios.bench import Bench, Boom
from tests.scenarios.house import House, Place


def a_saga(bench: Bench, **options: Any) -> Saga[Any, Any]:
    @saga(name="shielded", errors=[Boom], **options)
    def body(run: Run) -> str:
        run.step(bench.step("before"))
        with run.shield():
            run.step(bench.step("one"))
            run.wait_signal("go")
            run.step(bench.step("two"))
        run.step(bench.step("after"))
        return "done"

    return body


def test_a_cancel_in_a_shield_is_promised_and_applied_when_it_is_left(house: House, bench: Bench) -> None:
    body = a_saga(bench)
    house.add(body)
    handle = body.start()
    house.drain()

    answers = [handle.cancel(reason="changed my mind", by="me"), handle.cancel()]

    assert answers == [{"cancelled": True, "status": "waiting"}] * 2
    assert house.rows(handle.id, Action.CANCEL) == 1
    assert house.engine.run_of(handle.id).outcome is None
    handle.signal("go", 1)
    house.drain()
    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do before", "do one", "do two", "undo two", "undo one", "undo before"]
    assert handle.cancel() == {"cancelled": True, "status": "cancelled"}


def test_nothing_after_the_shield_is_ordered(house: House, bench: Bench) -> None:
    body = a_saga(bench)
    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    handle.signal("go", 1)
    house.drain()

    assert not any(x.attempt for x in house.store.steps(handle.id) if x.key == "do#4")


def test_a_cancel_without_undos_waits_too(house: House, bench: Bench) -> None:
    body = a_saga(bench)
    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel(compensate=False)
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do before", "do one", "do two"]


def test_outside_a_shield_a_cancel_is_applied_at_once(house: House, bench: Bench) -> None:
    @saga(name="left", errors=[Boom])
    def body(run: Run) -> None:
        with run.shield():
            run.step(bench.step("one"))
        run.wait_signal("go")

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do one", "undo one"]


def test_the_deadline_waits_too(house: House, bench: Bench) -> None:
    body = a_saga(bench, deadline=60)
    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(61)
    house.advance(1000)
    assert handle.refresh().status == "waiting"

    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "failed"
    assert type(handle.error).__name__ == "DeadlineExceeded"
    assert bench.calls == ["do before", "do one", "do two", "undo two", "undo one", "undo before"]
    assert house.rows(handle.id, Action.TIMEOUT) == 1


def test_a_cancel_after_the_deadline_in_one_shield_cancels(house: House, bench: Bench) -> None:
    body = a_saga(bench, deadline=60)
    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(61)
    assert handle.cancel()["cancelled"]
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "cancelled"


def test_nested_shields_count(house: House, bench: Bench) -> None:
    @saga(name="nested", errors=[Boom])
    def body(run: Run) -> None:
        with run.shield():
            with run.shield():
                run.step(bench.step("one"))
                run.wait_signal("go")
            run.step(bench.step("two"))
            run.wait_signal("go")
        run.step(bench.step("after"))

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    handle.signal("go", 1)
    house.drain()
    assert (handle.refresh().status, bench.calls) == ("waiting", ["do one", "do two"])
    handle.signal("go", 2)
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do one", "do two", "undo two", "undo one"]


def test_a_body_that_ends_with_its_shield_is_cancelled_and_not_completed(house: House, bench: Bench) -> None:
    @saga(name="ends", errors=[Boom])
    def body(run: Run) -> str:
        with run.shield():
            run.step(bench.step("one"))
            run.wait_signal("go")
        return "done"

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "cancelled"


@pytest.mark.parametrize("is_caught", [True, False])
def test_an_error_leaves_the_shield_too(house: House, bench: Bench, is_caught: bool) -> None:
    bench.fail["one"] = 1

    @saga(name="by error", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("before"))
        try:
            with run.shield():
                run.wait_signal("go")
                run.step(bench.step("one"))
        except Boom:
            if not is_caught:
                raise
        run.wait_signal("never")

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do before", "do one", "undo before"]


def test_after_a_bug_in_a_shield_the_run_goes_on_inside_and_the_cancel_waits(house: House, bench: Bench) -> None:
    broken = [True]

    @saga(name="bug", errors=[Boom])
    def body(run: Run) -> None:
        with run.shield():
            run.step(bench.step("one"))
            if broken:
                raise ZeroDivisionError("a bug")
            run.step(bench.step("two"))
        run.step(bench.step("after"))

    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "suspended"
    assert handle.cancel() == {"cancelled": True, "status": "suspended"}
    broken.clear()
    handle.resume()
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do one", "do two", "undo two", "undo one"]


def test_a_person_may_undo_a_run_that_is_parked_in_a_shield(house: House, bench: Bench) -> None:
    body = a_saga(bench)
    house.add(body)
    handle = body.start()
    house.drain()
    handle.suspend()
    handle.cancel()
    handle.compensate()
    house.drain()

    assert handle.refresh().status == "failed"
    assert bench.calls == ["do before", "do one", "undo one", "undo before"]


def test_a_cancel_waits_for_the_shields_of_parts(house: House, bench: Bench) -> None:
    @saga(name="parts", errors=[Boom])
    def body(run: Run) -> None:
        def part(name: str) -> Any:
            def function(run: Run) -> None:
                with run.shield():
                    run.step(bench.step(name))
                    run.wait_signal(f"go {name}")
                run.wait_signal("never")

            return function

        run.group(part("a"), part("b"))

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    handle.signal("go a", 1)
    house.drain()
    assert handle.refresh().status == "waiting"
    handle.signal("go b", 1)
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert Counter(bench.calls) == {"do a": 1, "do b": 1, "undo a": 1, "undo b": 1}


def test_a_join_that_is_over_does_not_wait_for_a_shield_of_what_it_abandons(house: House, bench: Bench) -> None:
    @saga(name="abandons", errors=[Boom])
    def body(run: Run) -> None:
        def arm(run: Run) -> None:
            with run.shield():
                run.step(bench.step("one"))
                run.wait_signal("never")

        run.race(arm=arm, go=lambda run: run.wait_signal("go"))
        run.wait_signal("never")

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do one", "undo one"]


def test_a_scope_in_a_shield_is_undone_before_the_cancel_is_applied(house: House, bench: Bench) -> None:
    bench.fail["three"] = 1

    @saga(name="scope in shield", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("before"))
        with run.shield():
            run.wait_signal("go")
            with run.scope("ship"):
                run.step(bench.step("one"))
                run.step(bench.step("three"))

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do before", "do one", "do three", "undo one", "undo before"]


def test_a_pivot_in_a_shield_is_refused_and_a_shield_after_the_pivot_is_none_the_worse(
    house: House, bench: Bench
) -> None:
    order = ["inside"]

    @saga(name="pivot", errors=[Boom])
    def body(run: Run) -> str:
        with run.shield():
            run.step(bench.step("one"))
            if order:
                run.pivot()
        run.pivot()
        with run.shield():
            run.wait_signal("go")
        return "done"

    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "suspended"
    order.clear()
    handle.resume()
    house.drain()
    assert handle.cancel() == {"cancelled": False, "status": "waiting"}
    handle.signal("go", 1)
    house.drain()

    assert handle.wait(1) == "done"


def test_a_run_that_starts_over_inside_a_shield_holds_it(house: House, bench: Bench) -> None:
    bench.fail["two"] = 1

    @saga(name="over", errors=[Boom])
    def body(run: Run) -> str:
        with run.shield():
            run.step(bench.do.si("one"))
            run.step(bench.do.si("two"))
            run.wait_signal("go")
        return "done"

    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "failed"
    handle.retry()
    house.drain()
    assert handle.refresh().status == "waiting"

    assert handle.cancel() == {"cancelled": True, "status": "waiting"}
    assert house.engine.run_of(handle.id).shields == 1
    handle.signal("go", 1)
    house.drain()
    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do one", "do two", "do two"]


def test_a_cancel_that_waited_keeps_the_next_step_from_being_executed_inline(place: Place) -> None:
    place.empty()
    with Parlour(place) as house:
        bench = Bench(house)
        body = a_saga(bench, dispatch="inline")
        house.add(body)
        handle = body.start()
        house.drain()
        assert (handle.refresh().status, house.executed) == ("waiting", ["do", "do#2"])
        handle.cancel()
        handle.signal("go", 1)
        house.drain()

        assert handle.refresh().status == "cancelled"
        assert house.executed == ["do", "do#2", "do#3"]
        assert bench.calls == ["do before", "do one", "do two", "undo two", "undo one", "undo before"]
