"""Joins: groups and maps of tasks and of functions, races, bounded, aborted, collected, nested."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from celery_saga import Retry, Run, RunFailed, Signal, SignalFailed, StepFailed, saga, step
from celery_saga.core.records import Action, StepKind
from celery_saga.core.status import StepStatus
from tests.scenarios.house import House


class Boom(Exception):
    """Declared where a test declares it."""


class Bench:
    """Tasks that write down what they did, fail as told, and never return in the order in which they were started."""

    def __init__(self, house: House) -> None:
        self.calls: list[str] = []
        self.fail: Counter[str] = Counter()

        @house.task("joins.do")
        def do(name: str) -> str:
            self.calls.append(f"do {name}")
            if self.fail[name] > 0:
                self.fail[name] -= 1
                raise Boom(name)
            return f"did {name}"

        @house.task("joins.undo")
        def undo(result: str) -> None:
            self.calls.append(f"undo {result}")

        @house.task("joins.double")
        def double(number: int) -> int:
            self.calls.append(f"double {number}")
            return 2 * number

        self.do, self.undo, self.double = do, undo, double

    def step(self, name: str, **options: Any) -> Any:
        return step(self.do.si(name), undo=self.undo, **options)


@pytest.fixture
def bench(house: House) -> Bench:
    return Bench(house)


def live(house: House, run_id: str) -> list[str]:
    return [x.key for x in house.store.steps(run_id) if not x.status.is_end and x.kind is not StepKind.JOIN]


# -- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_gives_its_results_in_declared_order(house: House, bench: Bench) -> None:
    @saga(name="g1", errors=[Boom])
    def body(run: Run) -> Any:
        pair = run.group(bench.do.si("a"), bench.do.si("b"))
        listed = run.group([bench.do.si("c")])
        named = run.group({"x": bench.do.si("d"), "y": bench.do.si("e")})
        empty = run.group()
        return [list(pair), listed, named, list(empty), run.group([]), run.group({})]

    house.add(body)
    handle = body.start()
    house.engine.coordinate(handle.id)
    house.messages.reverse()
    house.drain()

    want = [["did a", "did b"], ["did c"], {"x": "did d", "y": "did e"}, [], [], {}]
    assert handle.wait(1) == want
    assert sorted(bench.calls) == ["do a", "do b", "do c", "do d", "do e"]


def test_parts_that_are_functions_have_steps_of_their_own(house: House, bench: Bench) -> None:
    @saga(name="g2")
    def body(run: Run) -> Any:
        def both(name: str) -> Any:
            def part(run: Run) -> list[str]:
                return [run.step(bench.do.si(f"{name}1")), run.step(bench.do.si(f"{name}2"))]

            return part

        return list(run.group(both("a"), bench.do.si("b"), both("c"))), run.step(bench.do.si("end"))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == ([["did a1", "did a2"], "did b", ["did c1", "did c2"]], "did end")
    keys = {x.key for x in house.store.steps(handle.id)}
    assert {"group", "group[0]", "group[0]/do", "group[0]/do#2", "group[1]", "group[2]/do", "do"} <= keys
    assert bench.calls.count("do a1") == 1


def test_joins_nest_in_any_way(house: House, bench: Bench) -> None:
    @saga(name="g3")
    def body(run: Run) -> Any:
        def inner(run: Run, number: int) -> Any:
            doubled = run.map(bench.double, [number, number + 1])
            pair = run.group(lambda run: run.step(bench.double.si(number)), bench.double.si(100))
            return [list(doubled), list(pair)]

        return run.map(inner, [1, 5], name="outer")

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == [[[2, 4], [2, 200]], [[10, 12], [10, 200]]]


def test_an_aborted_group_raises_at_once_and_undoes_what_its_sibling_did(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="g4", errors=[Boom])
    def body(run: Run) -> Any:
        return run.group(bench.step("a"), bench.step("b"), bench.step("c"))

    house.add(body)
    handle = body.start()
    house.drain()

    with pytest.raises(RunFailed):
        handle.wait(1)
    assert isinstance(handle.error, Boom)
    done = [x for x in bench.calls if x.startswith("do ") and x != "do b"]
    undone = [x for x in bench.calls if x.startswith("undo")]
    assert undone == [x.replace("do ", "undo did ") for x in reversed(done)]


def test_a_caught_abort_lets_the_run_go_on_while_a_sibling_still_runs(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="g5", errors=[Boom])
    def body(run: Run) -> str:
        try:
            run.group(bench.step("slow"), bench.step("b"))
        except Boom:
            return run.step(bench.do.si("other way"))
        return "never"

    house.add(body)
    handle = body.start()
    slow = house.claim_next()
    house.drain()

    assert "do other way" in bench.calls
    assert handle.refresh().status == "compensating"
    house.finish(slow)
    house.drain()
    assert handle.wait(1) == "did other way"
    assert "undo did slow" not in bench.calls


def test_a_failing_run_undoes_an_abandoned_sibling_that_finishes_later(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="g6", errors=[Boom])
    def body(run: Run) -> Any:
        return run.group(bench.step("slow"), bench.step("b"))

    house.add(body)
    handle = body.start()
    slow = house.claim_next()
    house.drain()
    assert handle.refresh().status == "compensating"

    house.finish(slow)
    house.drain()

    assert handle.refresh().status == "failed"
    assert bench.calls == ["do b", "do slow", "undo did slow"]


def test_a14_a_collected_group_goes_on_and_tells_of_each_part(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="g7", errors=[Boom])
    def body(run: Run) -> Any:
        got = run.group({"a": bench.do.si("a"), "b": bench.do.si("b"), "c": bench.do.si("c")}, on_failure="collect")
        assert isinstance(got.results[1].error, Boom)
        return [got.succeeded, got.failed, [x.name for x in got.results], [x.output for x in got.results]]

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == [2, 1, ["a", "b", "c"], ["did a", None, "did c"]]


def test_an_unknown_class_of_a_part_comes_as_step_failed(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="g8")
    def body(run: Run) -> str:
        try:
            run.group(bench.do.si("a"), bench.do.si("b"))
        except StepFailed as error:
            return error.message
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "b"


def test_each_part_is_retried_by_itself(house: House, bench: Bench) -> None:
    bench.fail["b"] = 2

    @saga(name="g9")
    def body(run: Run) -> Any:
        return list(run.group(bench.do.si("a"), step(bench.do.si("b"), retry=Retry(max_attempts=3, delay=0))))

    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(1)

    assert handle.wait(1) == ["did a", "did b"]
    assert Counter(bench.calls) == {"do a": 1, "do b": 3}


# -- maps ------------------------------------------------------------------------------------------------------------


def test_a13_a_map_bounds_what_is_in_flight_and_keeps_the_order_of_its_items(house: House, bench: Bench) -> None:
    @saga(name="m1")
    def body(run: Run) -> Any:
        return run.map(bench.double, [1, 2, 3], concurrency=2)

    house.add(body)
    handle = body.start()
    slow = house.claim_next()
    statuses = Counter(x.status for x in house.store.steps(handle.id) if x.join_key)
    assert statuses == {StepStatus.RUNNING: 1, StepStatus.SCHEDULED: 1, StepStatus.HELD: 1}
    house.drain()
    assert bench.calls == ["double 2", "double 3"]
    house.finish(slow)
    house.drain()

    assert handle.wait(1) == [2, 4, 6]


@pytest.mark.parametrize("concurrency", [1, 3, 10, None])
def test_never_more_than_the_bound_are_in_flight(house: House, bench: Bench, concurrency: int | None) -> None:
    @saga(name="m2")
    def body(run: Run) -> Any:
        def item(run: Run, number: int) -> int:
            return run.step(bench.double.si(run.step(bench.double.si(number))))

        return run.map(item, range(10), concurrency=concurrency)

    house.add(body)
    handle = body.start()
    most = 0
    while house.messages:
        house.deliver(house.messages.pop())
        parts = [x for x in house.store.steps(handle.id) if x.join_key]
        most = max(most, sum(x.status not in (StepStatus.HELD,) and not x.status.is_end for x in parts))

    assert handle.wait(1) == [4 * n for n in range(10)]
    assert most == (concurrency or 10)


def test_a_map_over_a_mapping_gives_a_mapping(house: House, bench: Bench) -> None:
    @saga(name="m3")
    def body(run: Run) -> Any:
        return run.map(bench.double, {"a/b": 1, "c[0]": 2}, undo=bench.undo, retry=Retry(max_attempts=2))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == {"a/b": 2, "c[0]": 4}


# -- races -----------------------------------------------------------------------------------------------------------

GO = Signal("go", str)


@pytest.fixture
def racing(house: House, bench: Bench) -> Any:
    @saga(name="race", errors=[Boom])
    def racing(run: Run) -> str:
        won = run.race(signal=GO, activity=bench.step("activity"), late=3600)
        run.step(bench.do.si("after"))
        return f"{won.name} {won.value}"

    house.add(racing)
    return racing


def test_a31_the_signal_wins_and_the_step_is_cancelled(house: House, bench: Bench, racing: Any) -> None:
    handle = racing.start()
    house.engine.coordinate(handle.id)
    house.messages = [x for x in house.messages if not hasattr(x, "step")]
    house.drain()
    handle.signal(GO, "now")
    house.drain()

    assert handle.wait(1) == "signal now"
    assert bench.calls == ["do after"]
    assert {x.key: x.status.value for x in house.store.steps(handle.id)}["race[activity]"] == "cancelled"


def test_a31_a_signal_that_came_before_the_race_wins_it_and_no_other_arm_starts(
    house: House, bench: Bench, racing: Any
) -> None:
    handle = racing.start()
    handle.signal(GO, "early")
    house.drain()

    assert handle.wait(1) == "signal early"
    assert bench.calls == ["do after"]


def test_a_signal_counts_for_its_arm_in_the_transaction_that_takes_it(house: House, bench: Bench, racing: Any) -> None:
    handle = racing.start()
    house.engine.coordinate(handle.id)
    running = next(x for x in house.messages if hasattr(x, "step"))
    house.messages.clear()
    claimed = house.claim(running.step, "house:2")
    assert claimed is not None

    assert handle.signal(GO, "first") == "delivered"
    house.finish(claimed)
    house.drain()

    assert handle.wait(1) == "signal first"
    assert sorted(bench.calls) == ["do activity", "do after", "undo did activity"]


def test_an_arm_that_loses_takes_no_signal(house: House, bench: Bench) -> None:
    @saga(name="race6")
    def body(run: Run) -> list[str]:
        won = run.race(a=Signal("a", str), b=Signal("b", str))
        other = {"a": "b", "b": "a"}[won.name]
        return [won.name, won.value, run.wait_signal(other)]

    house.add(body)
    handle = body.start()
    handle.signal("b", "two")
    handle.signal("a", "one")
    house.drain()

    assert handle.wait(1) == ["a", "one", "two"]


def test_an_error_for_a_signal_fails_its_arm_and_not_the_race(house: House, bench: Bench) -> None:
    @saga(name="race7", errors=[Boom])
    def body(run: Run) -> str:
        try:
            return run.race(a=Signal("a"), b=Signal("b")).value
        except Boom as error:
            return f"declared {error}"
        except SignalFailed as error:
            return f"not declared {error.signal}"

    house.add(body)
    answered, declared, undeclared = body.start(), body.start(), body.start()
    house.drain()
    answered.signal("a", error=Boom("no"))
    answered.signal("b", "yes")
    declared.signal("b", error=ValueError("no"))
    declared.signal("a", error=Boom("never"))
    undeclared.signal("a", error=Boom("never"))
    undeclared.signal("b", error=ValueError("no"))
    house.drain()

    assert answered.wait(1) == "yes"
    assert declared.wait(1) == "declared never"
    assert undeclared.wait(1) == "not declared b"


def test_an_arm_for_a_signal_that_is_not_declared_is_refused_where_it_stands(house: House, bench: Bench) -> None:
    @saga(name="race8", signals=[GO])
    def body(run: Run) -> str:
        return run.race(a=bench.do.si("a"), b=Signal("other")).name

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "suspended"
    assert "does not declare the signal 'other'" in str(handle.error)
    assert bench.calls == []


def test_a_signal_races_in_a_part(house: House, bench: Bench) -> None:
    @saga(name="race9")
    def body(run: Run) -> list[str]:
        return run.map(lambda run, name: run.race(go=Signal(name), do=bench.do.si(name)).name, ["a", "b"])

    house.add(body)
    handle = body.start()
    handle.signal("b")
    house.drain()

    assert list(handle.wait(1)) == ["do", "go"]
    assert bench.calls == ["do a"]


def test_a31_without_a_signal_the_activity_wins(house: House, bench: Bench, racing: Any) -> None:
    handle = racing.start()
    house.drain()

    assert handle.wait(1) == "activity did activity"
    assert bench.calls == ["do activity", "do after"]


def test_a_loser_that_still_runs_is_undone_when_its_attempt_ends(house: House, bench: Bench, racing: Any) -> None:
    handle = racing.start()
    house.engine.coordinate(handle.id)
    running = next(x for x in house.messages if hasattr(x, "step"))
    house.messages.remove(running)
    claimed = house.claim(running.step, "house:2")
    assert claimed is not None
    house.drain()
    handle.signal(GO, "now")
    house.drain()
    assert bench.calls == ["do after"]
    assert handle.refresh().status == "compensating"

    house.finish(claimed)
    house.drain()

    assert handle.wait(1) == "signal now"
    assert bench.calls == ["do after", "do activity", "undo did activity"]


def test_a31_an_arm_that_raises_does_not_lose_the_race_for_the_others(house: House, bench: Bench) -> None:
    bench.fail["fast"] = 1

    @saga(name="race2", errors=[Boom])
    def body(run: Run) -> str:
        return run.race(fast=bench.do.si("fast"), slow=bench.do.si("slow")).name

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "slow"


def test_when_all_arms_raise_the_last_error_is_raised(house: House, bench: Bench) -> None:
    bench.fail["a"] = bench.fail["b"] = 1

    @saga(name="race3", errors=[Boom])
    def body(run: Run) -> str:
        try:
            return run.race(a=bench.do.si("a"), b=bench.do.si("b")).name
        except Boom as error:
            return f"lost {error}"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "lost b"


def test_a_losing_function_undoes_its_steps_last_in_first_out(house: House, bench: Bench) -> None:
    @saga(name="race4")
    def body(run: Run) -> str:
        def arm(run: Run) -> None:
            run.step(bench.step("one"))
            run.step(bench.step("two"))
            run.wait_signal("never")

        won = run.race(arm=arm, go=GO)
        return won.name

    house.add(body)
    handle = body.start()
    house.drain()
    assert bench.calls == ["do one", "do two"]
    handle.signal(GO, "now")
    house.drain()

    assert handle.wait(1) == "go"
    assert bench.calls == ["do one", "do two", "undo did two", "undo did one"]


def test_an_arm_that_failed_is_undone_also_where_the_last_arm_wins(house: House, bench: Bench) -> None:
    bench.fail["two"] = 1

    @saga(name="race5", errors=[Boom])
    def body(run: Run) -> str:
        def arm(run: Run) -> None:
            run.step(bench.step("one"))
            run.step(bench.do.si("two"))

        return run.race(arm=arm, go=GO).name

    house.add(body)
    handle = body.start()
    house.drain()
    assert bench.calls == ["do one", "do two"]
    handle.signal(GO, "now")
    house.drain()

    assert handle.wait(1) == "go"
    assert bench.calls == ["do one", "do two", "undo did one"]


# -- waiting, cancelling, bugs ---------------------------------------------------------------------------------------


def test_parts_wait_for_times_and_signals_of_their_own(house: House, bench: Bench) -> None:
    @saga(name="w1")
    def body(run: Run) -> Any:
        def sleeper(run: Run) -> str:
            run.sleep(60)
            return run.step(bench.do.si("slept"))

        def waiter(run: Run) -> str:
            return run.wait_signal("word", type=str)

        return list(run.group(sleeper, waiter))

    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "waiting"
    handle.signal("word", "mum")
    house.drain()
    assert handle.refresh().status == "waiting"
    house.advance(61)

    assert handle.wait(1) == ["did slept", "mum"]


def test_a_cancel_stops_parts_and_undoes_what_they_did(house: House, bench: Bench) -> None:
    @saga(name="w2")
    def body(run: Run) -> Any:
        def part(run: Run) -> None:
            run.step(bench.step("one"))
            run.wait_signal("never")

        return list(run.group(part, part))

    house.add(body)
    handle = body.start()
    house.drain()
    handle.cancel()
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert Counter(bench.calls) == {"do one": 2, "undo did one": 2}


def test_a_bug_in_a_part_parks_the_run_and_resume_goes_on_after_the_fix(house: House, bench: Bench) -> None:
    broken = [True]

    @saga(name="w3")
    def body(run: Run) -> Any:
        def part(run: Run) -> str:
            done = run.step(bench.do.si("one"))
            if broken:
                raise ZeroDivisionError("a bug")
            return done

        return list(run.group(part, bench.do.si("b")))

    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "suspended"
    broken.clear()
    handle.resume()
    house.drain()

    assert handle.wait(1) == ["did one", "did b"]
    assert bench.calls.count("do one") == 1


def test_a_changed_width_parks_the_run(house: House, bench: Bench) -> None:
    width = [2]

    @saga(name="w4")
    def body(run: Run) -> Any:
        return run.group([*(bench.do.si(str(n)) for n in range(width[0])), lambda run: run.wait_signal("x")])

    house.add(body)
    handle = body.start()
    house.drain()
    width[0] = 3
    handle.signal("x", 1)
    house.drain()

    assert handle.refresh().status == "suspended"
    assert house.rows(handle.id, Action.PARK) == 1


def test_the_steps_after_a_join_do_not_load_its_parts(house: House, bench: Bench) -> None:
    @saga(name="w5")
    def body(run: Run) -> Any:
        run.map(bench.double, range(5))
        run.wait_signal("go")

    house.add(body)
    handle = body.start()
    house.drain()

    loaded = house.store.load(handle.id)
    assert loaded is not None
    assert sorted(loaded.snapshot.steps) == ["go", "map"]
    assert len(house.store.steps(handle.id)) == 7


def deep(depth: int, leaf: Any) -> Any:
    return leaf if depth == 0 else lambda run: list(run.group(deep(depth - 1, leaf)))


@pytest.mark.parametrize("shape", ["long names", "many levels"])
def test_a_key_that_has_no_room_parks_the_run_and_says_so(house: House, bench: Bench, shape: str) -> None:
    @saga(name="w6")
    def body(run: Run) -> Any:
        if shape == "long names":
            run.group({"a" * 100: bench.do.si("a")}, name="g" * 150)
        else:
            run.group(deep(40, bench.do.si("a")))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "suspended"
    assert "at most 200 are allowed" in str(handle.error)
    assert bench.calls == []


def test_an_error_names_the_part_that_failed_and_its_attempts(house: House, bench: Bench) -> None:
    bench.fail["b"] = 3

    @saga(name="named-1")
    def body(run: Run) -> Any:
        return run.group(bench.do.si("a"), step(bench.do.si("b"), retry=Retry(max_attempts=3, delay=0)))

    house.add(body)
    handle = body.start()
    house.drain()
    house.advance(1)

    with pytest.raises(RunFailed) as caught:
        handle.wait(1)
    cause = caught.value.cause
    assert isinstance(cause, StepFailed)
    assert (caught.value.step, cause.step, cause.attempts) == ("group[1]", "group[1]", 3)


def test_a_collected_error_has_its_attempts(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="named-2")
    def body(run: Run) -> Any:
        error = run.map(bench.do, ["a", "b"], on_failure="collect").results[1].error
        assert isinstance(error, StepFailed)
        return [error.step, error.attempts]

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == ["map[1]", 1]


def test_a_part_whose_step_has_a_name_keeps_it(house: House, bench: Bench) -> None:
    @saga(name="named-3")
    def body(run: Run) -> Any:
        return list(run.group(step(bench.do.si("a"), name="paid"), bench.do.si("b")))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == ["did a", "did b"]
    assert [x.key for x in house.store.steps(handle.id) if x.kind is StepKind.STEP] == ["group[1]", "group[0]/paid"]
