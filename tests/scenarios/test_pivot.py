"""The pivot: after it a run only goes forward, whatever fails, is cancelled, comes too late or is broken."""

from __future__ import annotations

from typing import Any

import pytest

from celery_saga import NonRetryable, Retry, Run, Saga, saga, step
from celery_saga.core.records import Action
from celery_saga.engine.ports import Limits
from tests.scenarios.bench import Bench, Boom
from tests.scenarios.house import House, Place


def a_saga(bench: Bench, *, by_step: bool = False, **options: Any) -> Saga[Any, Any]:
    @saga(name="pivoted", errors=[Boom], **options)
    def body(run: Run) -> str:
        run.step(bench.step("before"))
        if by_step:
            run.step(bench.do.si("turn"), name="turn", pivot=True)
        else:
            run.pivot()
        run.step(bench.step("after"))
        return run.wait_signal("go", type=str)

    return body


def pivoted(house: House, run_id: str) -> bool:
    return house.engine.run_of(run_id).pivoted


@pytest.mark.parametrize("by_step", [False, True])
def test_after_the_pivot_a_cancel_is_refused_and_changes_nothing(house: House, bench: Bench, by_step: bool) -> None:
    body = a_saga(bench, by_step=by_step)
    house.add(body)
    handle = body.start()
    house.drain()
    assert pivoted(house, handle.id)
    before = house.engine.run_of(handle.id)

    answers = [handle.cancel(), handle.cancel(compensate=False)]

    assert answers == [{"cancelled": False, "status": "waiting"}] * 2
    assert house.engine.run_of(handle.id) == before
    handle.signal("go", "on")
    house.drain()
    assert handle.wait(1) == "on"
    assert not any(x.startswith("undo") for x in bench.calls)


def test_before_the_pivot_a_cancel_undoes(house: House, bench: Bench) -> None:
    body = a_saga(bench, by_step=True)
    house.add(body)
    handle = body.start()
    while "do before" not in bench.calls:
        house.deliver(house.messages.pop(0))
    assert not pivoted(house, handle.id)

    assert handle.cancel()["cancelled"]
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do before", "undo before"]


def test_a_pivot_step_that_fails_is_no_pivot(house: House, bench: Bench) -> None:
    bench.fail["turn"] = 2

    @saga(name="failing", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("before"))
        run.step(bench.do.si("turn"), pivot=True, retry=Retry(2, delay=0))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "failed"
    assert bench.calls == ["do before", "do turn", "do turn", "undo before"]


def test_after_the_pivot_a_failing_step_is_tried_until_it_succeeds(house: House, bench: Bench) -> None:
    bench.fail["after"] = 12
    body = a_saga(bench)
    house.add(body)
    handle = body.start()
    house.drain()
    waits = []
    while bench.calls.count("do after") < 13:
        row = next(x for x in house.store.steps(handle.id) if x.key == "do#2")
        assert row.wake_at is not None
        waits.append((row.wake_at - house.now).total_seconds())
        house.advance(waits[-1])
    handle.signal("go", "on")
    house.drain()

    assert handle.wait(1) == "on"
    assert bench.calls == ["do before"] + ["do after"] * 13
    assert house.rows(handle.id, Action.FAIL) == 12
    assert max(waits) <= 300
    assert sum(waits[:4]) <= 15


def test_the_delays_are_those_of_an_unbounded_policy(house: House, bench: Bench) -> None:
    bench.fail["after"] = 5

    @saga(name="unbounded", errors=[Boom])
    def body(run: Run) -> Any:
        run.pivot()
        return run.step(bench.do.si("after"), retry=Retry(None, delay=7, factor=1, jitter=False))

    house.add(body)
    handle = body.start()
    house.drain()
    for number in range(1, 6):
        assert bench.calls == ["do after"] * number
        house.advance(6)
        assert bench.calls == ["do after"] * number
        house.advance(1)

    assert handle.wait(1) == "after"


@pytest.mark.parametrize("how", ["step", "group", "map", "part"])
@pytest.mark.parametrize("policy", [Retry(2), Retry(None, on=[Boom]), Retry(None, never_on=[Boom])])
def test_a_bounded_step_after_the_pivot_is_refused_before_it_is_ordered(
    house: House, bench: Bench, how: str, policy: Retry
) -> None:
    @saga(name="bounded", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("before"))
        run.pivot()
        if how == "step":
            run.step(bench.step("after"), retry=policy)
        elif how == "group":
            run.group(bench.do.si("x"), bench.step("after", retry=policy))
        elif how == "map":
            run.map(bench.do, ["x", "y"], retry=policy)
        else:
            run.group(lambda run: run.step(bench.step("after", retry=policy)))

    house.add(body)
    handle = body.start()
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (handle.refresh().status, run.reason) == ("suspended", "body_error")
    assert run.error is not None
    assert "max_attempts=None" in run.error.message
    assert bench.calls == ["do before"]


def test_before_the_pivot_a_bounded_step_is_as_ever(house: House, bench: Bench) -> None:
    bench.fail["before"] = 2

    @saga(name="before", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("before"), retry=Retry(2, delay=0))
        run.pivot()

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "failed"


def test_what_a_task_calls_not_retryable_ends_the_step_and_parks_the_run(house: House, bench: Bench) -> None:
    bench.fail["after"], bench.error = 1, NonRetryable
    body = a_saga(bench)
    house.add(body)
    handle = body.start()
    house.drain()
    run = house.engine.run_of(handle.id)
    assert (handle.refresh().status, run.reason, run.error_step) == ("suspended", "pivot", "do#2")
    assert bench.calls == ["do before", "do after"]

    handle.resume()
    house.drain()
    handle.signal("go", "on")
    house.drain()

    assert handle.wait(1) == "on"
    assert bench.calls == ["do before", "do after", "do after"]


def test_a_declared_error_that_leaves_the_body_after_the_pivot_parks(house: House, bench: Bench) -> None:
    answers: list[str] = []

    @saga(name="declared", errors=[Boom])
    def body(run: Run) -> str:
        run.step(bench.step("before"))
        run.pivot()
        if not answers:
            raise Boom("not now")
        return answers[0]

    house.add(body)
    handle = body.start()
    house.drain()
    assert (handle.refresh().status, house.engine.run_of(handle.id).reason) == ("suspended", "pivot")
    assert bench.calls == ["do before"]

    answers.append("later")
    handle.resume()
    house.drain()
    assert handle.wait(1) == "later"


def test_a_signal_that_does_not_come_is_raised_as_ever_and_may_be_caught(house: House, bench: Bench) -> None:
    @saga(name="late signal", errors=[Boom])
    def body(run: Run) -> str:
        run.pivot()
        try:
            run.wait_signal("go", timeout=10)
        except TimeoutError:
            return "went on"
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(11)

    assert handle.wait(1) == "went on"


def test_the_deadline_parks_once(house: House, bench: Bench) -> None:
    body = a_saga(bench, deadline=60)
    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(61)
    assert (handle.refresh().status, house.engine.run_of(handle.id).reason) == ("suspended", "deadline")
    assert bench.calls == ["do before", "do after"]

    handle.resume()
    house.advance(1000)
    handle.signal("go", "on")
    house.drain()

    assert handle.wait(1) == "on"
    assert house.rows(handle.id, Action.TIMEOUT) == 1


def test_a_bug_parks_also_with_on_bug_compensate(house: House, bench: Bench) -> None:
    broken = [True]

    @saga(name="bug", errors=[Boom], on_bug="compensate")
    def body(run: Run) -> str:
        run.step(bench.step("before"))
        run.pivot()
        if broken:
            raise ZeroDivisionError("a bug")
        return "done"

    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "suspended"
    broken.clear()
    handle.resume()
    house.drain()

    assert handle.wait(1) == "done"
    assert bench.calls == ["do before"]


def test_a_step_that_is_lost_too_often_parks_and_goes_on_when_resumed(place: Place) -> None:
    place.empty()
    with House(place, limits=Limits(max_stalls=1)) as house:
        bench = Bench(house)
        body = a_saga(bench)
        house.add(body)
        handle = body.start()
        while not any(x.key == "do#2" for x in house.store.steps(handle.id)):
            house.deliver(house.messages.pop(0))
        while handle.refresh().status == "running":
            row = next(x for x in house.store.steps(handle.id) if x.key == "do#2")
            claimed = house.claim(row, "house:2")
            assert claimed is not None
            house.engine.end_attempt(handle.id, "do#2", claimed.step.claim_token)
        run = house.engine.run_of(handle.id)
        assert (handle.status, run.reason) == ("suspended", "stalled")

        handle.resume()
        house.drain()
        house.sweep()
        handle.signal("go", "on")
        house.drain()

        assert handle.wait(1) == "on"
        assert bench.calls == ["do before", "do after"]


def test_a_person_may_skip_what_will_not_succeed(house: House, bench: Bench) -> None:
    bench.fail["after"] = 10_000
    body = a_saga(bench)
    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(100)
    handle.skip("do#2", "by hand", reason="done at the counter")
    house.drain()
    handle.signal("go", "on")
    house.drain()

    assert handle.wait(1) == "on"


def test_a_person_may_undo_a_parked_run_all_the_same(house: House, bench: Bench) -> None:
    body = a_saga(bench, deadline=60)
    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(61)
    handle.compensate(reason="the customer is dead")
    house.drain()

    assert handle.refresh().status == "failed"
    assert bench.calls == ["do before", "do after", "undo after", "undo before"]


@pytest.mark.parametrize("where", ["scope", "part", "step in scope", "step in part", "part itself"])
def test_a_pivot_inside_something_is_refused(house: House, bench: Bench, where: str) -> None:
    @saga(name="inside", errors=[Boom])
    def body(run: Run) -> None:
        def part(run: Run) -> None:
            if where == "part":
                run.pivot()
            else:
                run.step(bench.do.si("x"), pivot=True)

        if where in ("part", "step in part"):
            run.group(part)
        elif where == "part itself":
            run.group(step(bench.do.si("x"), pivot=True))
        else:
            with run.scope("ship"):
                part_ = run.pivot if where == "scope" else lambda: run.step(bench.do.si("x"), pivot=True)
                part_()

    house.add(body)
    handle = body.start()
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (handle.refresh().status, run.pivoted, bench.calls) == ("suspended", False, [])
    assert run.error is not None
    assert run.error.type_name.endswith("DefinitionError")


def test_a_scope_after_the_pivot_still_undoes_its_own_steps(house: House, bench: Bench) -> None:
    bench.fail["label"], bench.error = 1, NonRetryable

    @saga(name="scoped", errors=[Boom])
    def body(run: Run) -> Any:
        run.step(bench.step("before"))
        run.pivot()
        try:
            with run.scope("ship"):
                run.step(bench.step("pack"))
                run.step(bench.step("label"))
        except Exception:  # noqa: BLE001
            return run.step(bench.do.si("pick-up"))
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "pick-up"
    assert bench.calls == ["do before", "do pack", "do label", "undo pack", "do pick-up"]


def test_a_new_generation_has_not_passed_a_pivot_that_was_cut(house: House, bench: Bench) -> None:
    body = a_saga(bench, deadline=60)
    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(61)
    handle.compensate()
    house.drain()
    handle.retry()
    assert not pivoted(house, handle.id)
    house.drain()
    assert pivoted(house, handle.id)
    handle.signal("go", "on")
    house.drain()

    assert handle.wait(1) == "on"


@pytest.mark.parametrize("policy", [None, Retry(2, delay=0, jitter=False)])
def test_an_old_error_that_leaves_the_body_after_the_pivot_takes_nothing_back(
    house: House, bench: Bench, policy: Retry | None
) -> None:
    bench.fail["old"] = 1
    fixed: list[str] = []

    @saga(name="old error", errors=[Boom], retry=policy)
    def body(run: Run) -> str:
        error: Exception | None = None
        try:
            run.step(bench.step("old"))
        except Boom as caught:
            error = caught
        run.pivot()
        run.step(bench.step("after"))
        if error is not None and not fixed:
            raise error
        return "done"

    house.add(body)
    handle = body.start()
    house.drain()
    for _ in range(3):
        house.advance(1)
    assert (handle.refresh().status, house.engine.run_of(handle.id).reason) == ("suspended", "pivot")
    fixed.append("yes")
    handle.resume()
    house.drain()

    assert handle.wait(1) == "done"
    assert bench.calls == ["do old", "do after"]
