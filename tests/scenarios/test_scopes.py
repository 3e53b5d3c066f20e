"""Scopes: left by an error they undo their own steps; nested, in parts, around joins, among cancels and bugs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from celery_saga import Run, RunFailed, saga, step
from celery_saga.core.attempts import Succeeded
from celery_saga.core.records import Action, StepKind
from celery_saga.core.status import StepStatus
from celery_saga.engine.ports import StepMessage
from tests.scenarios.bench import Bench, Boom
from tests.scenarios.house import House


def keys(house: House, run_id: str) -> list[str]:
    return [x.key for x in house.store.steps(run_id)]


def check_lifo(calls: list[str]) -> None:
    """What was undone was undone once, last in first out, after it was done."""
    done = [x[3:] for x in calls if x.startswith("do ")]
    undone = [x[5:] for x in calls if x.startswith("undo ")]
    assert len(undone) == len(set(undone))
    assert undone == [x for x in reversed(done) if x in undone]


# -- leaving ---------------------------------------------------------------------------------------------------------


def test_a_scope_left_by_an_error_undoes_its_own_steps_and_lets_the_error_on(house: House, bench: Bench) -> None:
    bench.fail["label"] = 1

    @saga(name="s1", errors=[Boom])
    def body(run: Run) -> Any:
        run.step(bench.step("order"))
        try:
            with run.scope("ship"):
                run.step(bench.step("pack"))
                run.step(bench.step("weigh"))
                run.step(bench.step("label"))
        except Boom as error:
            bench.calls.append(f"caught {error}")
            return run.step(bench.step("pick-up"))
        return "shipped"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "pick-up"
    first = bench.calls.index("caught label")
    assert bench.calls[:first] == ["do order", "do pack", "do weigh", "do label", "undo weigh", "undo pack"]
    assert {"ship", "ship/do", "ship/do#2", "ship/do#3", "ship!rollback"} <= set(keys(house, handle.id))


def test_a_scope_that_comes_to_its_end_undoes_nothing_until_the_run_does(house: House, bench: Bench) -> None:
    bench.fail["last"] = 1

    @saga(name="s2", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("order"))
        with run.scope("ship"):
            run.step(bench.step("pack"))
        run.step(bench.step("last"))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "failed"
    assert bench.calls == ["do order", "do pack", "do last", "undo pack", "undo order"]


def test_a_run_that_fails_later_does_not_undo_a_left_scope_again(house: House, bench: Bench) -> None:
    bench.fail["label"] = bench.fail["last"] = 1

    @saga(name="s3", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("order"))
        try:
            with run.scope("ship"):
                run.step(bench.step("pack"))
                run.step(bench.step("label"))
        except Boom:
            run.step(bench.step("instead"))
        run.step(bench.step("last"))

    house.add(body)
    handle = body.start()
    house.drain()

    with pytest.raises(RunFailed):
        handle.wait(1)
    assert [x for x in bench.calls if x.startswith("undo")] == ["undo pack", "undo instead", "undo order"]


def test_an_error_that_leaves_scope_and_body_fails_the_run_as_itself(house: House, bench: Bench) -> None:
    bench.fail["label"] = 1

    @saga(name="s4", errors=[Boom])
    def body(run: Run) -> None:
        run.step(bench.step("order"))
        with run.scope("ship"):
            run.step(bench.step("pack"))
            run.step(bench.step("label"))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "failed"
    assert isinstance(handle.error, Boom)
    assert bench.calls == ["do order", "do pack", "do label", "undo pack", "undo order"]


def test_an_error_of_the_bodys_own_leaves_a_scope_as_one_of_a_step_does(house: House, bench: Bench) -> None:
    @saga(name="s5", errors=[Boom])
    def body(run: Run) -> str:
        try:
            with run.scope("ship"):
                run.step(bench.step("pack"))
                raise Boom("too heavy")
        except Boom as error:
            return str(error)

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "too heavy"
    assert bench.calls == ["do pack", "undo pack"]


def test_a_scope_with_nothing_to_undo_lets_the_error_on_at_once(house: House, bench: Bench) -> None:
    @saga(name="s6", errors=[Boom])
    def body(run: Run) -> Any:
        try:
            with run.scope("ship"):
                raise Boom("nothing done")
        except Boom:
            return run.step(bench.do.si("other way"))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "other way"
    assert bench.calls == ["do other way"]


def test_scopes_of_one_name_are_numbered_as_steps_are(house: House, bench: Bench) -> None:
    bench.fail["label 1"] = 1

    @saga(name="s7", errors=[Boom])
    def body(run: Run) -> list[str]:
        told = []
        for number in range(3):
            try:
                with run.scope("ship"):
                    run.step(bench.step(f"pack {number}"))
                    told.append(run.step(bench.step(f"label {number}")))
            except Boom:
                told.append("not")
        return told

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == ["label 0", "not", "label 2"]
    assert [x for x in bench.calls if x.startswith("undo")] == ["undo pack 1"]
    assert {"ship/do", "ship#2/do", "ship#3/do#2", "ship#2!rollback"} <= set(keys(house, handle.id))


def test_scopes_nest_and_the_inner_one_is_undone_first(house: House, bench: Bench) -> None:
    bench.fail["c"] = 1

    @saga(name="s8", errors=[Boom])
    def body(run: Run) -> str:
        try:
            with run.scope("outer"):
                run.step(bench.step("a"))
                with run.scope("inner"):
                    run.step(bench.step("b"))
                    run.on_undo(bench.undo.si("registered"))
                    run.step(bench.step("c"))
        except Boom:
            return "caught"
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "caught"
    assert bench.calls == ["do a", "do b", "do c", "undo registered", "undo b", "undo a"]


def test_an_inner_scope_whose_error_is_caught_inside_the_outer_is_undone_alone(house: House, bench: Bench) -> None:
    bench.fail["c"] = 1

    @saga(name="s9", errors=[Boom])
    def body(run: Run) -> str:
        with run.scope("outer"):
            run.step(bench.step("a"))
            try:
                with run.scope("inner"):
                    run.step(bench.step("b"))
                    run.step(bench.step("c"))
            except Boom:
                run.step(bench.step("d"))
        return "done"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "done"
    assert bench.calls == ["do a", "do b", "do c", "undo b", "do d"]


# -- joins -----------------------------------------------------------------------------------------------------------


def test_a_left_scope_undoes_what_joins_in_it_did(house: House, bench: Bench) -> None:
    bench.fail["last"] = 1

    @saga(name="j1", errors=[Boom])
    def body(run: Run) -> str:
        def part(run: Run) -> None:
            run.step(bench.step("p1"))
            run.step(bench.step("p2"))

        run.step(bench.step("before"))
        try:
            with run.scope("ship"):
                run.group(bench.step("a"), part)
                run.map(bench.do, ["x", "y"], undo=bench.undo)
                run.step(bench.step("last"))
        except Boom:
            return "caught"
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "caught"
    assert Counter(x for x in bench.calls if x.startswith("undo")) == Counter(
        f"undo {x}" for x in ("a", "p1", "p2", "x", "y")
    )
    check_lifo(bench.calls)


def test_a_scope_in_a_part_undoes_only_what_is_in_it(house: House, bench: Bench) -> None:
    bench.fail["p2"] = 1

    @saga(name="j2", errors=[Boom])
    def body(run: Run) -> Any:
        def part(run: Run) -> Any:
            run.step(bench.step("p0"))
            try:
                with run.scope("try"):
                    run.step(bench.step("p1"))
                    run.step(bench.step("p2"))
            except Boom:
                return run.step(bench.step("p3"))
            return "never"

        return list(run.group(part, bench.step("a")))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == ["p3", "a"]
    assert [x for x in bench.calls if "p" in x and x != "do a"] == ["do p0", "do p1", "do p2", "undo p1", "do p3"]
    assert "group[0]/try!rollback" in keys(house, handle.id)


def test_a_left_scope_waits_for_what_an_aborted_join_in_it_still_runs(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="j3", errors=[Boom])
    def body(run: Run) -> Any:
        try:
            with run.scope("ship"):
                run.group(bench.step("slow"), bench.step("b"))
        except Boom:
            return run.step(bench.do.si("after"))
        return "never"

    house.add(body)
    handle = body.start()
    slow = house.claim_next()
    house.drain()
    assert bench.calls == ["do b"]
    assert handle.refresh().status == "running"

    house.finish(slow)
    house.drain()

    assert handle.wait(1) == "after"
    assert bench.calls == ["do b", "do slow", "undo slow", "do after"]


def test_a_scope_in_an_abandoned_part_is_undone_to_its_end(house: House, bench: Bench) -> None:
    bench.fail["p2"] = bench.fail["b"] = 1

    @saga(name="j4", errors=[Boom])
    def body(run: Run) -> str:
        def part(run: Run) -> None:
            with run.scope("try"):
                run.step(bench.step("p0"))
                run.step(bench.step("p1"))
                run.step(bench.step("p2"))

        try:
            run.group(part, bench.step("b"))
        except Boom:
            return run.wait_signal("go", type=str)
        return "never"

    house.add(body)
    handle = body.start()
    house.engine.coordinate(handle.id)
    b = next(x for x in house.messages if isinstance(x, StepMessage) and x.step.key == "group[1]")
    house.messages = [x for x in house.messages if x is not b]
    while "do p2" not in bench.calls:
        house.deliver(house.messages.pop(0))
    house.deliver(house.messages.pop(0))
    house.deliver(b)
    house.drain()

    assert [x for x in bench.calls if x.startswith("undo")] == ["undo p1", "undo p0"]
    handle.signal("go", "on")
    house.drain()
    assert handle.wait(1) == "on"


@pytest.mark.parametrize("in_group", [False, True])
def test_a_child_in_a_left_scope_is_undone_as_one_in_its_place(house: House, bench: Bench, in_group: bool) -> None:
    @saga(name="kid", errors=[Boom])
    def kid(run: Run) -> None:
        run.step(bench.step("k1"))
        run.step(bench.step("k2"))

    @saga(name="j6", errors=[Boom])
    def body(run: Run) -> str:
        try:
            with run.scope("ship"):
                run.step(bench.step("a"))
                if in_group:
                    run.group(kid.s())
                else:
                    run.child(kid)
                run.step(bench.step("b"))
                raise Boom("left")
        except Boom:
            return "caught"

    house.add(kid, body)
    handle = body.start()
    house.drain()

    assert handle.wait(1) == "caught"
    assert bench.calls == ["do a", "do k1", "do k2", "do b", "undo b", "undo k2", "undo k1", "undo a"]


def test_a_race_in_a_left_scope_undoes_winner_and_loser_in_one_order(house: House, bench: Bench) -> None:
    @saga(name="j5", errors=[Boom])
    def body(run: Run) -> str:
        def arm(run: Run) -> None:
            run.step(bench.step("one"))
            run.step(bench.step("two"))
            run.wait_signal("never")

        try:
            with run.scope("ship"):
                run.step(bench.step("zero"))
                run.race(arm=arm, go=lambda run: run.wait_signal("go"))
                raise Boom("left")
        except Boom:
            return "caught"

    house.add(body)
    handle = body.start()
    house.drain()
    handle.signal("go", 1)
    house.drain()

    assert handle.wait(1) == "caught"
    assert bench.calls == ["do zero", "do one", "do two", "undo two", "undo one", "undo zero"]


# -- bugs and changed bodies -----------------------------------------------------------------------------------------


def test_a_bug_leaves_a_scope_without_a_trace_and_the_run_goes_on_inside_after_the_fix(
    house: House, bench: Bench
) -> None:
    broken = [True]

    @saga(name="b1", errors=[Boom])
    def body(run: Run) -> Any:
        with run.scope("ship"):
            run.step(bench.step("pack"))
            if broken:
                raise ZeroDivisionError("a bug")
            return run.step(bench.step("label"))

    house.add(body)
    handle = body.start()
    house.drain()
    assert (handle.refresh().status, bench.calls) == ("suspended", ["do pack"])
    assert "ship!rollback" not in keys(house, handle.id)

    broken.clear()
    handle.resume()
    house.drain()

    assert handle.wait(1) == "label"
    assert bench.calls == ["do pack", "do label"]


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_bug_that_is_caught_outside_the_scope_parks_the_run(house: House, bench: Bench, goes_on: bool) -> None:
    @saga(name="b2", errors=[Boom])
    def body(run: Run) -> str:
        try:
            with run.scope("ship"):
                run.step(bench.step("pack"))
                raise ZeroDivisionError("a bug")
        except ZeroDivisionError:
            return run.step(bench.do.si("other way")) if goes_on else "caught"

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "suspended"
    run = house.engine.run_of(handle.id)
    assert run.error is not None
    assert "scope 'ship' was left by ZeroDivisionError: a bug" in run.error.message
    assert bench.calls == ["do pack"]


def test_with_on_bug_compensate_a_bug_in_a_scope_undoes_the_whole_run(house: House, bench: Bench) -> None:
    @saga(name="b3", errors=[Boom], on_bug="compensate")
    def body(run: Run) -> None:
        run.step(bench.step("order"))
        with run.scope("ship"):
            run.step(bench.step("pack"))
            raise ZeroDivisionError("a bug")

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "failed"
    assert bench.calls == ["do order", "do pack", "undo pack", "undo order"]


def _changed(bench: Bench, ways: list[str]) -> Any:
    @saga(name="c", errors=[Boom])
    def body(run: Run) -> str:
        way = ways[0]
        if way == "no scope":
            run.step(bench.step("pack"))
        else:
            try:
                with run.scope("post" if way == "other name" else "ship"):
                    if way != "nothing inside":
                        run.step(bench.step("pack"))
                    if way == "more inside":
                        run.step(bench.step("weigh"))
                    if way != "no error":
                        raise Boom("heavy")
            except Boom:
                pass
        return str(run.wait_signal("go"))

    return body


@pytest.mark.parametrize("way", ["no scope", "other name", "nothing inside", "more inside", "no error"])
def test_a_body_that_does_something_else_in_a_left_scope_parks(house: House, bench: Bench, way: str) -> None:
    ways = ["as ever"]
    body = _changed(bench, ways)
    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "waiting"

    ways[0] = way
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().status == "suspended"
    assert house.store.load(handle.id).snapshot.run.reason == "non_determinism"  # type: ignore[union-attr]
    assert bench.calls == ["do pack", "undo pack"]
    ways[0] = "as ever"
    handle.resume()
    house.drain()
    assert handle.wait(1) == "1"


# -- among everything else -------------------------------------------------------------------------------------------


def test_a_cancel_while_a_scope_is_being_undone_undoes_the_rest_in_order(house: House, bench: Bench) -> None:
    bench.fail["c"] = 1

    @saga(name="e1", errors=[Boom])
    def body(run: Run) -> str:
        run.step(bench.step("a"))
        try:
            with run.scope("ship"):
                run.step(bench.step("b0"))
                run.step(bench.step("b1"))
                run.step(bench.step("c"))
        except Boom:
            return "caught"
        return "never"

    house.add(body)
    handle = body.start()
    while "do c" not in bench.calls:
        house.deliver(house.messages.pop(0))
    while not any(x.kind is StepKind.UNDO for x in house.store.steps(handle.id)):
        house.deliver(house.messages.pop(0))
    handle.cancel()
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert bench.calls == ["do a", "do b0", "do b1", "do c", "undo b1", "undo b0", "undo a"]


def test_a_deadline_while_a_scope_is_being_undone_undoes_the_rest_in_order(house: House, bench: Bench) -> None:
    bench.fail["c"] = bench.fail["undo b"] = 1

    @saga(name="e2", errors=[Boom], deadline=0.5)
    def body(run: Run) -> str:
        run.step(bench.step("a"))
        with run.scope("ship"):
            run.step(bench.step("b"))
            run.step(bench.step("c"))
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.refresh().status == "running"
    for _ in range(3):
        house.advance(400)

    assert handle.refresh().status == "failed"
    assert bench.calls == ["do a", "do b", "do c", "undo b", "undo b", "undo a"]


def test_an_undo_of_a_scope_that_is_used_up_parks_and_a_person_closes_it(house: House, bench: Bench) -> None:
    bench.fail["c"] = 1
    bench.fail["undo b"] = 10_000

    @saga(name="e3", errors=[Boom])
    def body(run: Run) -> str:
        try:
            with run.scope("ship"):
                run.step(bench.step("a"))
                run.step(bench.step("b"))
                run.step(bench.step("c"))
        except Boom:
            return "caught"
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()
    while handle.refresh().status == "running":
        house.advance(400)
    assert handle.status == "suspended"
    handle.resolve_undo("ship/do#2", outcome="done")
    house.drain()

    assert handle.wait(1) == "caught"
    assert bench.calls[-1] == "undo a"


def test_a_step_of_unknown_outcome_in_a_scope_is_undone_with_it(house: House, bench: Bench) -> None:
    @saga(name="e4", errors=[Boom])
    def body(run: Run) -> str:
        try:
            with run.scope("ship"):
                run.step(bench.step("a"))
                run.step(step(bench.do.si("b"), undo=bench.undo.si("b"), timeout=1))
        except Exception:  # noqa: BLE001
            return "caught"
        return "never"

    house.add(body)
    handle = body.start()
    while not any(x.key == "ship/do#2" for x in house.store.steps(handle.id)):
        house.deliver(house.messages.pop(0))
    slow = house.claim(next(x for x in house.store.steps(handle.id) if x.key == "ship/do#2"), "house:2")
    assert slow is not None
    house.drain()
    for _ in range(3):
        house.advance(400)

    assert handle.wait(1) == "caught"
    assert bench.calls == ["do a", "undo b", "undo a"]
    assert not house.engine.check_in(slow, Succeeded("1"))


def test_a_left_scope_is_told_by_its_rows_and_the_history(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    @saga(name="e5", errors=[Boom])
    def body(run: Run) -> str:
        try:
            with run.scope("ship"):
                run.step(bench.step("a"))
                run.step(bench.step("b"))
        except Boom:
            return "caught"
        return "never"

    house.add(body)
    handle = body.start()
    house.drain()

    rows = {x.key: x for x in house.store.steps(handle.id)}
    assert rows["ship"].kind is StepKind.MARK
    assert rows["ship!rollback"].status is StepStatus.DONE
    assert [(x.action, x.step) for x in house.store.history(handle.id)] == [
        (Action.OK, "ship/do"),
        (Action.FAIL, "ship/do#2"),
        (Action.OK, "ship/do!undo"),
        (Action.END, None),
    ]


@pytest.mark.parametrize("name", ["", "a/b", "a#2", "x" * 300, 7, None])
def test_a_name_that_no_key_can_begin_with_is_refused(house: House, bench: Bench, name: Any) -> None:
    @saga(name="e6")
    def body(run: Run) -> None:
        with run.scope(name):
            run.step(bench.do.si("never"))

    house.add(body)
    handle = body.start()
    house.drain()

    assert handle.refresh().status == "suspended"
    assert bench.calls == []
