"""Children: runs that are steps of another run; they end, fail, are cancelled and undone with it, or on their own."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from celery_saga import (
    IllegalTransition,
    Retry,
    Run,
    RunCancelled,
    RunFailed,
    RunHandle,
    Saga,
    StepFailed,
    saga,
    step,
)
from celery_saga.core.records import Action, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from tests.scenarios.house import House


class Boom(Exception):
    """Declared where a test declares it."""


ONCE = Retry(max_attempts=1)


class Yard:
    """Tasks that write down what they did and fail as told, and a child of two steps."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.calls: list[str] = []
        self.fail: Counter[str] = Counter()

        @house.task("kids.do")
        def do(name: str) -> str:
            self.calls.append(f"do {name}")
            if self.fail[name] > 0:
                self.fail[name] -= 1
                raise Boom(name)
            return name

        @house.task("kids.undo")
        def undo(name: str) -> None:
            self.calls.append(f"undo {name}")
            if self.fail[f"undo {name}"] > 0:
                self.fail[f"undo {name}"] -= 1
                raise Boom(f"undo {name}")

        self.do, self.undo = do, undo

        @saga(name="kid", errors=[Boom])
        def kid(run: Run, name: str) -> str:
            first = run.step(self.step(f"{name}1"))
            second = run.step(self.step(f"{name}2"))
            return f"{first}+{second}"

        @saga(name="waiter", errors=[Boom])
        def waiter(run: Run, name: str) -> str:
            run.step(self.step(f"{name}1"))
            return run.wait_signal("go", type=str) + run.step(self.step(f"{name}2"))

        self.kid, self.waiter = kid, waiter
        house.add(kid, waiter)

    def step(self, name: str, **options: Any) -> Any:
        return step(self.do.si(name), undo=self.undo, **options)

    def row(self, run_id: str, key: str) -> StepRecord:
        """The row of this key, of the latest generation."""
        return [x for x in self.house.store.steps(run_id) if x.key == key][-1]

    def run(self, run_id: str) -> Any:
        return self.house.engine.run_of(run_id)

    def undone(self) -> list[str]:
        return [x for x in self.calls if x.startswith("undo")]


@pytest.fixture
def yard(house: House) -> Yard:
    return Yard(house)


def start(house: House, body: Saga[Any, Any], *args: Any) -> Any:
    house.add(body)
    handle = body.start(*args)
    house.drain()
    return handle


# -- completing -------------------------------------------------------------------------------------------------------


def test_a_child_gives_its_result(house: House, yard: Yard) -> None:
    @saga(name="p1")
    def body(run: Run) -> str:
        return run.child(yard.kid, "a") + "," + run.child(yard.kid, "b")

    handle = start(house, body)

    assert handle.wait(1) == "a1+a2,b1+b2"
    assert yard.calls == ["do a1", "do a2", "do b1", "do b2"]
    child = yard.run(yard.row(handle.id, "kid").task_id or "")
    assert (child.parent_id, child.parent_key, child.wake_at) == (handle.id, "kid", None)
    assert house.actions(handle.id) == ["ok", "ok", "end"]


def test_a_child_may_have_children(house: House, yard: Yard) -> None:
    @saga(name="p2mid")
    def mid(run: Run, name: str) -> str:
        return "(" + run.child(yard.kid, name) + ")"

    @saga(name="p2")
    def body(run: Run) -> str:
        return run.child(mid, "a")

    house.add(mid)

    assert start(house, body).wait(1) == "(a1+a2)"


def test_the_same_saga_twice_gives_two_children(house: House, yard: Yard) -> None:
    @saga(name="p3")
    def body(run: Run) -> str:
        return run.child(yard.kid, "a") + run.child(yard.kid, "a")

    handle = start(house, body)

    assert handle.wait(1) == "a1+a2a1+a2"
    assert yard.row(handle.id, "kid").task_id != yard.row(handle.id, "kid#2").task_id


def test_a_child_takes_its_options_along(house: House, yard: Yard) -> None:
    @saga(name="p4")
    def body(run: Run) -> str:
        return run.child(yard.kid.options(countdown=60, deadline=3600, priority=7, tags=["x"]), "a")

    handle = start(house, body)
    child = yard.run(yard.row(handle.id, "kid").task_id or "")
    assert (child.priority, child.tags, child.status) == (7, ("x",), RunStatus.QUEUED)
    assert child.deadline_at is not None
    assert yard.calls == []
    assert handle.status is RunStatus.WAITING

    house.advance(61)

    assert handle.refresh().wait(1) == "a1+a2"


def test_r036_a_child_has_its_parents_priority_unless_one_is_said(house: House, yard: Yard) -> None:
    @saga(name="kid_of_3", priority=3)
    def kid_of_3(run: Run) -> None:
        run.child(grandkid)

    @saga(name="kid_of_0", priority=0)
    def kid_of_0(run: Run) -> None:
        run.step(yard.do.si("kid_of_0"))

    @saga(name="grandkid")
    def grandkid(run: Run) -> None:
        run.step(yard.do.si("grandkid"))

    @saga(name="p5")
    def body(run: Run) -> list[str]:
        run.child(yard.kid, "a")
        run.child(yard.kid.options(priority=0), "b")
        run.child(kid_of_3)
        run.child(kid_of_3.options(priority=9))
        run.child(kid_of_0)
        return [run.child(yard.kid.options(detached=True), "c").id]

    house.add(kid_of_3, kid_of_0, grandkid)
    [detached] = (handle := start(house, body.options(priority=7))).wait(1)

    keys = ("kid", "kid#2", "kid_of_3", "kid_of_3#2", "kid_of_0")
    ids = [yard.row(handle.id, key).task_id or "" for key in keys]
    assert [yard.run(each).priority for each in ids] == [7, 0, 3, 9, 0]
    assert [yard.run(yard.row(each, "grandkid").task_id or "").priority for each in ids[2:4]] == [3, 9]
    assert yard.run(detached).priority == 0


# -- failing ----------------------------------------------------------------------------------------------------------


def test_a_failed_child_raises_its_error_in_the_parent_which_is_undone(house: House, yard: Yard) -> None:
    yard.fail["a2"] = 1

    @saga(name="f1", errors=[Boom])
    def body(run: Run) -> str:
        run.step(yard.step("p"))
        return run.child(yard.kid, "a")

    handle = start(house, body)

    with pytest.raises(RunFailed):
        handle.wait(1)
    assert isinstance(handle.error, Boom)
    assert yard.undone() == ["undo a1", "undo p"]
    assert yard.row(handle.id, "kid").status is StepStatus.FAILED


def test_the_body_may_catch_the_error_of_a_child_and_go_on(house: House, yard: Yard) -> None:
    yard.fail["a1"] = 1

    @saga(name="f2")
    def body(run: Run) -> str:
        try:
            return run.child(yard.kid, "a")
        except Boom:
            return run.child(yard.kid, "b")

    handle = start(house, body)

    assert handle.wait(1) == "b1+b2"
    assert yard.undone() == []


def test_an_error_that_nobody_declares_comes_as_step_failed_with_the_child_as_step(house: House, yard: Yard) -> None:
    yard.fail["x"] = 1

    @saga(name="f3kid")
    def kid(run: Run) -> None:
        run.step(yard.do.si("x"))

    @saga(name="f3")
    def body(run: Run) -> str:
        try:
            run.child(kid)
        except StepFailed as error:
            return f"{error.step} {error.is_a(Boom)} {error.message}"
        return "nothing"

    house.add(kid)

    assert start(house, body).wait(1) == "f3kid True x"


def test_a_child_that_somebody_cancels_raises_run_cancelled(house: House, yard: Yard) -> None:
    @saga(name="f4")
    def body(run: Run) -> str:
        try:
            return run.child(yard.waiter, "a")
        except RunCancelled:
            return "cancelled"

    handle = start(house, body)
    house.engine.cancel(yard.row(handle.id, "waiter").task_id or "")
    house.drain()

    assert handle.refresh().wait(1) == "cancelled"
    assert yard.undone() == ["undo a1"]


def test_the_parent_sees_a_child_whose_undos_are_used_up_and_does_not_end_as_if_all_were_undone(
    house: House, yard: Yard
) -> None:
    yard.fail["b"], yard.fail["undo a"] = 1, 99

    @saga(name="f5kid", errors=[Boom])
    def kid(run: Run) -> None:
        run.step(yard.step("a", undo_retry=ONCE))
        run.step(yard.step("b"))

    @saga(name="f5", errors=[Boom])
    def body(run: Run) -> None:
        run.step(yard.step("p"))
        run.child(kid)

    house.add(kid)
    handle = start(house, body)
    child_id = yard.row(handle.id, "f5kid").task_id or ""

    assert yard.run(child_id).status is RunStatus.COMPENSATION_FAILED
    assert handle.status is RunStatus.COMPENSATION_FAILED
    assert isinstance(handle.error, Boom)
    assert yard.undone() == ["undo a", "undo p"]
    assert any("compensation_failed" in (x.detail or "") for x in house.store.history(handle.id) if x.kind == "child")

    yard.fail["undo a"] = 0
    house.engine.retry_undo(child_id, "do")
    house.drain()

    assert yard.run(child_id).status is RunStatus.FAILED
    assert handle.refresh().status is RunStatus.FAILED
    assert yard.undone() == ["undo a", "undo p", "undo a"]


def test_a_retried_undo_of_the_parent_repairs_the_child_too(house: House, yard: Yard) -> None:
    yard.fail["undo a"] = 99

    @saga(name="f6kid")
    def kid(run: Run) -> None:
        run.step(yard.step("a", undo_retry=ONCE))

    @saga(name="f6", errors=[Boom])
    def body(run: Run) -> None:
        run.step(yard.step("p"))
        run.child(kid)
        run.step(yard.step("q"))

    yard.fail["q"] = 1
    house.add(kid)
    handle = start(house, body)
    child_id = yard.row(handle.id, "f6kid").task_id or ""
    assert handle.status is RunStatus.COMPENSATION_FAILED
    assert yard.run(child_id).status is RunStatus.COMPENSATION_FAILED
    assert yard.row(handle.id, "f6kid!undo").status is StepStatus.FAILED

    house.engine.retry_undo(handle.id, "f6kid")
    house.drain()
    assert handle.refresh().status is RunStatus.COMPENSATION_FAILED
    yard.fail["undo a"] = 0
    house.engine.retry_undo(handle.id, "f6kid")
    house.drain()

    assert handle.refresh().status is RunStatus.FAILED
    assert yard.run(child_id).status is RunStatus.CANCELLED
    assert yard.undone() == ["undo a", "undo p", "undo a", "undo a"]


# -- cancelling and undoing -------------------------------------------------------------------------------------------


def test_a_cancel_goes_down_child_first(house: House, yard: Yard) -> None:
    @saga(name="c1")
    def body(run: Run) -> str:
        run.step(yard.step("p"))
        return run.child(yard.waiter, "a")

    handle = start(house, body)
    answer = handle.cancel(reason="changed my mind")
    assert answer == {"cancelled": True, "status": "compensating"}
    house.drain()

    child = yard.run(yard.row(handle.id, "waiter").task_id or "")
    assert (handle.refresh().status, child.status) == (RunStatus.CANCELLED, RunStatus.CANCELLED)
    assert yard.undone() == ["undo a1", "undo p"]
    assert yard.row(handle.id, "waiter").status is StepStatus.CANCELLED
    assert house.rows(handle.id, Action.CANCEL) == 2
    reasons = [x.reason for x in house.store.history(child.id) if x.action is Action.CANCEL]
    assert reasons == [f"by its parent, run {handle.id}"]


def test_a_cancel_without_undos_goes_down_without_undos_and_compensate_undoes_the_tree(
    house: House, yard: Yard
) -> None:
    @saga(name="c2")
    def body(run: Run) -> str:
        run.child(yard.kid, "k")
        return run.child(yard.waiter, "a")

    handle = start(house, body)
    handle.cancel(compensate=False)
    house.drain()
    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.undone() == []

    house.engine.compensate(handle.id)
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.undone() == ["undo a1", "undo k2", "undo k1"]


def test_a_child_that_has_not_begun_is_cancelled_before_its_body(house: House, yard: Yard) -> None:
    @saga(name="c3")
    def body(run: Run) -> str:
        return run.child(yard.kid.options(countdown=3600), "a")

    handle = start(house, body)
    handle.cancel()
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.run(yard.row(handle.id, "kid").task_id or "").status is RunStatus.CANCELLED
    house.advance(7200)
    assert yard.calls == []


def test_a_completed_child_is_undone_as_one_in_its_place(house: House, yard: Yard) -> None:
    yard.fail["last"] = 1

    @saga(name="c4", errors=[Boom])
    def body(run: Run) -> None:
        run.step(yard.step("first"))
        run.child(yard.kid, "a")
        run.step(yard.step("second"))
        run.child(yard.kid, "b")
        run.step(yard.step("last"))

    handle = start(house, body)

    assert handle.status is RunStatus.FAILED
    assert yard.undone() == [f"undo {x}" for x in ("b2", "b1", "second", "a2", "a1", "first")]
    for key in ("kid", "kid#2"):
        assert yard.row(handle.id, key).status is StepStatus.DONE
        assert yard.row(handle.id, key + "!undo").status is StepStatus.DONE
        assert yard.run(yard.row(handle.id, key).task_id or "").status is RunStatus.CANCELLED


def test_a_tree_of_three_is_cancelled_from_its_leaves_and_undone_whole(house: House, yard: Yard) -> None:
    @saga(name="c5mid")
    def mid(run: Run) -> None:
        run.step(yard.step("m1"))
        run.child(yard.kid, "k")
        run.child(yard.waiter, "w")

    @saga(name="c5")
    def body(run: Run) -> None:
        run.step(yard.step("r1"))
        run.child(mid)

    house.add(mid)
    handle = start(house, body)
    handle.cancel()
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.undone() == [f"undo {x}" for x in ("w1", "k2", "k1", "m1", "r1")]


def test_a_completed_tree_of_three_is_undone_by_an_operator(house: House, yard: Yard) -> None:
    @saga(name="c6mid")
    def mid(run: Run) -> str:
        run.step(yard.step("m1"))
        return run.child(yard.kid, "k")

    @saga(name="c6")
    def body(run: Run) -> str:
        result = run.child(mid)
        run.step(yard.step("r1"))
        return result

    house.add(mid)
    handle = start(house, body)
    assert handle.status is RunStatus.COMPLETED
    house.engine.compensate(handle.id, reason="recalled")
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.undone() == [f"undo {x}" for x in ("r1", "k2", "k1", "m1")]


def test_the_deadline_of_the_parent_ends_its_children(house: House, yard: Yard) -> None:
    @saga(name="c7", deadline=60)
    def body(run: Run) -> str:
        return run.child(yard.waiter, "a")

    handle = start(house, body)
    house.advance(61)

    assert handle.refresh().status is RunStatus.FAILED
    assert yard.undone() == ["undo a1"]


def test_nothing_happens_to_the_children_of_a_parent_that_is_parked(house: House, yard: Yard) -> None:
    @saga(name="c8")
    def body(run: Run) -> str:
        return run.child(yard.waiter, "a")

    handle = start(house, body)
    child_id = yard.row(handle.id, "waiter").task_id or ""
    house.engine.suspend(handle.id)
    house.engine.signal(child_id, "go", value_text='"!"')
    house.drain()
    assert yard.run(child_id).status is RunStatus.COMPLETED
    assert yard.row(handle.id, "waiter").status is StepStatus.DONE
    assert handle.refresh().status is RunStatus.SUSPENDED

    house.engine.resume(handle.id)
    house.drain()

    assert handle.refresh().wait(1) == "!a2"


def test_a_suspended_child_is_cancelled_with_its_parent(house: House, yard: Yard) -> None:
    @saga(name="c9")
    def body(run: Run) -> str:
        return run.child(yard.waiter, "a")

    handle = start(house, body)
    house.engine.suspend(yard.row(handle.id, "waiter").task_id or "")
    handle.cancel()
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.undone() == ["undo a1"]


def test_a_retried_parent_keeps_the_children_before_the_cut_and_starts_the_others_anew(
    house: House, yard: Yard
) -> None:
    yard.fail["b2"] = 1

    @saga(name="r1", errors=[Boom], on_failure="suspend")
    def body(run: Run) -> str:
        return run.child(yard.kid, "a") + run.child(yard.kid, "b")

    handle = start(house, body)
    assert handle.status is RunStatus.SUSPENDED
    failed = yard.row(handle.id, "kid#2").task_id
    house.engine.resume(handle.id)
    house.drain()

    assert handle.refresh().wait(1) == "a1+a2b1+b2"
    assert yard.row(handle.id, "kid#2").task_id != failed
    assert yard.calls == [*(f"do {x}" for x in ("a1", "a2", "b1", "b2")), "undo b1", "do b1", "do b2"]


def test_a_retried_failed_parent_starts_its_undone_child_anew(house: House, yard: Yard) -> None:
    yard.fail["x"] = 1

    @saga(name="r2", errors=[Boom])
    def body(run: Run) -> str:
        result = run.child(yard.kid, "a")
        run.step(yard.step("x"))
        return result

    handle = start(house, body)
    assert handle.status is RunStatus.FAILED
    house.engine.retry(handle.id)
    house.drain()

    assert handle.refresh().wait(1) == "a1+a2"
    assert yard.calls.count("do a1") == 2


def test_the_sagas_own_retry_starts_a_failed_child_anew(house: House, yard: Yard) -> None:
    yard.fail["a2"] = 1

    @saga(name="r3", errors=[Boom], retry=Retry(max_attempts=2, delay=10, jitter=False))
    def body(run: Run) -> str:
        run.step(yard.step("p"))
        return run.child(yard.kid, "a")

    handle = start(house, body)
    assert yard.calls == ["do p", "do a1", "do a2", "undo a1"]
    house.advance(11)

    assert handle.refresh().wait(1) == "a1+a2"
    assert yard.calls[4:] == ["do a1", "do a2"]


def test_a_child_is_not_retried_behind_its_parents_back(house: House, yard: Yard) -> None:
    yard.fail["a1"] = 1

    @saga(name="r4")
    def body(run: Run) -> str:
        try:
            return run.child(yard.kid, "a")
        except Boom:
            return "failed"

    handle = start(house, body)
    child_id = yard.row(handle.id, "kid").task_id or ""

    with pytest.raises(IllegalTransition, match=f"retry run {handle.id}"):
        house.engine.retry(child_id)
    assert yard.run(child_id).status is RunStatus.FAILED


def test_a_child_that_lives_is_not_skipped(house: House, yard: Yard) -> None:
    @saga(name="r5")
    def body(run: Run) -> str:
        return run.child(yard.waiter, "a")

    handle = start(house, body)

    with pytest.raises(IllegalTransition, match="cancel that first"):
        house.engine.skip(handle.id, "waiter")


# -- parts ------------------------------------------------------------------------------------------------------------


def test_children_are_parts_of_groups_and_maps(house: House, yard: Yard) -> None:
    @saga(name="g1")
    def body(run: Run) -> Any:
        pair = run.group(yard.kid.s("a"), yard.do.si("x"), lambda run: run.child(yard.kid, "b"))
        return list(pair), list(run.map(yard.kid, ["c", "d"])), run.map(yard.kid.s(), {"k": "e"})

    handle = start(house, body)

    assert handle.wait(1) == (["a1+a2", "x", "b1+b2"], ["c1+c2", "d1+d2"], {"k": "e1+e2"})
    assert yard.row(handle.id, "group[0]").kind is StepKind.CHILD


def test_a_bound_holds_children_back(house: House, yard: Yard) -> None:
    @saga(name="g2")
    def body(run: Run) -> Any:
        return list(run.map(yard.waiter, ["a", "b", "c"], concurrency=1))

    handle = start(house, body)
    for name in "abc":
        rows = [x for x in house.store.steps(handle.id) if x.kind is StepKind.CHILD]
        live = [x for x in rows if x.status is StepStatus.WAITING]
        assert len(live) == 1
        assert yard.calls[-1] == f"do {name}1"
        house.engine.signal(live[0].task_id or "", "go", value_text='"!"')
        house.drain()

    assert handle.refresh().wait(1) == ["!a2", "!b2", "!c2"]


def test_a_held_child_is_cancelled_without_having_been_started(house: House, yard: Yard) -> None:
    @saga(name="g3")
    def body(run: Run) -> Any:
        return list(run.map(yard.waiter, ["a", "b"], concurrency=1))

    handle = start(house, body)
    handle.cancel()
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.row(handle.id, "map[1]").task_id is None
    assert yard.calls == ["do a1", "undo a1"]


def test_a_parked_parent_starts_no_held_child_before_it_is_resumed(house: House, yard: Yard) -> None:
    @saga(name="g4")
    def body(run: Run) -> Any:
        return list(run.map(yard.waiter, ["a", "b"], concurrency=1))

    handle = start(house, body)
    house.engine.suspend(handle.id)
    house.engine.signal(yard.row(handle.id, "map[0]").task_id or "", "go", value_text='"!"')
    house.drain()
    assert yard.row(handle.id, "map[1]").status is StepStatus.HELD
    house.engine.resume(handle.id)
    house.drain()

    house.engine.signal(yard.row(handle.id, "map[1]").task_id or "", "go", value_text='"?"')
    house.drain()
    assert handle.refresh().wait(1) == ["!a2", "?b2"]


def test_an_aborted_group_cancels_its_other_children_and_goes_on_at_once(house: House, yard: Yard) -> None:
    yard.fail["b1"] = 1

    @saga(name="g5")
    def body(run: Run) -> Any:
        try:
            run.group(yard.waiter.s("a"), yard.kid.s("b"))
        except Boom:
            return run.step(yard.do.si("else"))

    handle = start(house, body)

    assert handle.wait(1) == "else"
    assert yard.run(yard.row(handle.id, "group[0]").task_id or "").status is RunStatus.CANCELLED
    assert yard.undone() == ["undo a1"]


def test_the_loser_of_a_race_is_cancelled_and_undone(house: House, yard: Yard) -> None:
    @saga(name="g6")
    def body(run: Run) -> Any:
        won = run.race(slow=yard.waiter.s("a"), fast=yard.kid.s("b"), late=lambda run: run.child(yard.waiter, "c"))
        return won.name, won.value, run.step(yard.do.si("then"))

    handle = start(house, body)

    assert handle.wait(1) == ("fast", "b1+b2", "then")
    assert sorted(yard.undone()) == ["undo a1", "undo c1"]


def test_collected_children_tell_their_errors(house: House, yard: Yard) -> None:
    yard.fail["b1"] = 1

    @saga(name="g7")
    def body(run: Run) -> Any:
        done = run.map(yard.kid, ["a", "b"], on_failure="collect")
        return [[x.name, x.output, type(x.error).__name__] for x in done.results]

    assert start(house, body).wait(1) == [["0", "a1+a2", "NoneType"], ["1", None, "Boom"]]


def test_the_children_of_a_map_are_undone_in_the_reverse_order_of_their_ends(house: House, yard: Yard) -> None:
    yard.fail["x"] = 1

    @saga(name="g8", errors=[Boom])
    def body(run: Run) -> Any:
        run.map(yard.kid, ["a", "b", "c"], concurrency=1)
        run.step(yard.do.si("x"))

    handle = start(house, body)

    assert handle.status is RunStatus.FAILED
    assert yard.undone() == [f"undo {x}" for x in ("c2", "c1", "b2", "b1", "a2", "a1")]


# -- detached ---------------------------------------------------------------------------------------------------------


def test_a_detached_run_is_started_and_independent(house: House, yard: Yard) -> None:
    yard.fail["x"] = 1

    @saga(name="d1", errors=[Boom])
    def body(run: Run) -> Any:
        handle = run.child(yard.waiter.options(detached=True), "a")
        assert isinstance(handle, RunHandle)
        run.step(yard.do.si(handle.id))
        run.step(yard.do.si("x"))

    handle = start(house, body)
    assert handle.status is RunStatus.FAILED
    run_id = yard.calls[0].removeprefix("do ") if yard.calls[0] != "do a1" else yard.calls[1].removeprefix("do ")
    own = yard.waiter.get(run_id)

    assert own.status is RunStatus.WAITING
    assert yard.run(run_id).parent_id is None
    own.signal("go", "!")
    house.drain()
    assert own.refresh().wait(1) == "!a2"
    assert yard.undone() == []


def test_a_detached_run_with_a_key_is_the_run_of_that_key(house: House, yard: Yard) -> None:
    @saga(name="d2kid", key="{name}")
    def kid(run: Run, name: str) -> str:
        return run.step(yard.do.si(name))

    @saga(name="d2")
    def body(run: Run) -> list[str]:
        own = kid.options(detached=True)
        other = yard.kid.options(detached=True, key="other")
        return [run.child(own, "a").id, run.child(own, "a").id, run.child(other, "b").id]

    house.add(kid)
    handle = start(house, body)

    same = kid.find(key="a").id
    assert handle.wait(1) == [same, same, yard.kid.find(key="other").id]
    assert sorted(yard.calls) == ["do a", "do b1", "do b2"]


@pytest.mark.parametrize(
    ("options", "word"), [({"key": "k"}, "detached=True only"), ({"if_exists": "raise"}, "if_exists='raise'")]
)
def test_options_that_make_no_sense_for_a_child_are_refused_by_name(
    house: House, yard: Yard, options: dict[str, Any], word: str
) -> None:
    @saga(name="d3", on_bug="compensate")
    def body(run: Run) -> str:
        return run.child(yard.kid.options(**options), "a")

    handle = start(house, body)

    assert handle.status is RunStatus.FAILED
    assert word in str(handle.error)
    assert yard.calls == []


# -- what may get lost ------------------------------------------------------------------------------------------------


def test_a_tree_is_finished_by_the_sweeper_alone(house: House, yard: Yard) -> None:
    @saga(name="s1", errors=[Boom])
    def body(run: Run) -> str:
        return run.child(yard.kid, "a")

    house.add(body)
    handle = body.start()
    for _ in range(40):
        house.messages.clear()
        house.now += timedelta(seconds=31)
        house.engine.sweep()
        if house.messages:
            house.deliver(house.messages[0])
    assert handle.refresh().wait(1) == "a1+a2"


def test_a_cancelled_tree_is_finished_by_the_sweeper_alone(house: House, yard: Yard) -> None:
    @saga(name="s2")
    def body(run: Run) -> str:
        run.child(yard.kid, "k")
        return run.child(yard.waiter, "a")

    handle = start(house, body)
    handle.cancel()
    for _ in range(60):
        house.messages.clear()
        house.now += timedelta(seconds=31)
        house.engine.sweep()
        if house.messages:
            house.deliver(house.messages[0])

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.undone() == ["undo a1", "undo k2", "undo k1"]


def test_an_ended_child_keeps_its_wake_up_until_the_parent_knows(house: House, yard: Yard) -> None:
    @saga(name="s3")
    def body(run: Run) -> str:
        return run.child(yard.kid, "a")

    house.add(body)
    handle = body.start()
    while not _child_has_ended(yard, handle.id):
        house.deliver(house.messages.pop(0))
    child_id = yard.row(handle.id, "kid").task_id or ""
    house.messages.clear()

    assert yard.run(child_id).wake_at is not None
    assert yard.row(handle.id, "kid").status is StepStatus.WAITING
    house.store.transact(child_id, lambda s, now: s.with_run(wake_at=None))
    assert [x.id for x in house.store.without_wake_up()] == [child_id]
    house.store.transact(child_id, lambda s, now: s.with_run(wake_at=now))
    assert house.store.without_wake_up() == []
    house.advance(31)

    assert handle.refresh().wait(1) == "a1+a2"
    assert yard.run(child_id).wake_at is None


def _child_has_ended(yard: Yard, run_id: str) -> bool:
    rows = [x for x in yard.house.store.steps(run_id) if x.kind is StepKind.CHILD]
    return bool(rows) and yard.run(rows[0].task_id or "").status.is_end


def test_a_report_that_comes_late_or_twice_changes_nothing(house: House, yard: Yard) -> None:
    @saga(name="s4")
    def body(run: Run) -> str:
        return run.child(yard.kid, "a")

    handle = start(house, body)
    child_id = yard.row(handle.id, "kid").task_id or ""
    before = house.store.history(handle.id)
    house.store.transact(child_id, lambda s, now: s.with_run(wake_at=now))
    house.advance(31)

    assert house.store.history(handle.id) == before
    assert yard.run(child_id).wake_at is None


def test_children_without_undos_are_undone_without_waiting_for_the_sweeper(house: House, yard: Yard) -> None:
    @saga(name="c10kid")
    def kid(run: Run, name: str) -> str:
        return run.step(yard.do.si(name))

    @saga(name="c10")
    def body(run: Run) -> int:
        return len(run.map(kid, ["a", "b"]))

    house.add(kid)
    handle = start(house, body)
    assert handle.wait(1) == 2
    house.engine.compensate(handle.id)
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert {yard.run(yard.row(handle.id, f"map[{x}]").task_id or "").status for x in (0, 1)} == {RunStatus.CANCELLED}


def test_a_child_past_its_pivot_completes_and_is_then_undone_with_its_parent(house: House, yard: Yard) -> None:
    @saga(name="c11kid")
    def kid(run: Run) -> None:
        run.step(yard.step("a"))
        run.pivot()
        run.wait_signal("go")
        run.step(yard.step("b"))

    @saga(name="c11")
    def body(run: Run) -> None:
        run.step(yard.step("p"))
        run.child(kid)

    house.add(kid)
    handle = start(house, body)
    child_id = yard.row(handle.id, "c11kid").task_id or ""
    handle.cancel()
    house.drain()
    assert (handle.refresh().status, yard.run(child_id).status) == (RunStatus.COMPENSATING, RunStatus.WAITING)
    house.engine.signal(child_id, "go")
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.calls == ["do p", "do a", "do b", "undo b", "undo a", "undo p"]


def test_a_shielded_child_is_cancelled_once_the_shield_is_left(house: House, yard: Yard) -> None:
    @saga(name="c12kid")
    def kid(run: Run) -> None:
        with run.shield():
            run.step(yard.step("a"))
            run.wait_signal("go")
            run.step(yard.step("b"))
        run.step(yard.step("c"))

    @saga(name="c12")
    def body(run: Run) -> None:
        run.child(kid)

    house.add(kid)
    handle = start(house, body)
    child_id = yard.row(handle.id, "c12kid").task_id or ""
    handle.cancel()
    house.advance(100)
    assert yard.calls == ["do a"]
    house.engine.signal(child_id, "go")
    house.drain()

    assert handle.refresh().status is RunStatus.CANCELLED
    assert yard.undone() == ["undo b", "undo a"]
    assert house.rows(child_id, Action.CANCEL) == 1


def test_a_scope_that_is_left_undoes_the_children_that_completed_in_it(house: House, yard: Yard) -> None:
    yard.fail["x"] = 1

    @saga(name="c13", errors=[Boom])
    def body(run: Run) -> str:
        run.step(yard.step("p"))
        try:
            with run.scope("part"):
                run.child(yard.kid, "k")
                run.step(yard.step("x"))
        except Boom:
            return run.child(yard.kid, "other")
        return "nothing"

    handle = start(house, body)

    assert handle.wait(1) == "other1+other2"
    assert yard.undone() == ["undo k2", "undo k1"]


def test_a_retry_starts_only_the_failed_children_of_a_group_anew(house: House, yard: Yard) -> None:
    yard.fail["b2"] = 1

    @saga(name="r6", errors=[Boom], on_failure="suspend")
    def body(run: Run) -> Any:
        return list(run.group(yard.kid.s("a"), yard.kid.s("b")))

    handle = start(house, body)
    assert handle.status is RunStatus.SUSPENDED
    house.engine.resume(handle.id)
    house.drain()

    assert handle.refresh().wait(1) == ["a1+a2", "b1+b2"]
    assert (yard.calls.count("do b1"), yard.undone().count("undo b1")) == (2, 1)
    assert yard.calls.count("do a1") - yard.undone().count("undo a1") == 1


# -- what is refused --------------------------------------------------------------------------------------------------


def _parks_with(house: House, body: Saga[Any, Any], text: str) -> None:
    handle = start(house, body)
    assert handle.status is RunStatus.SUSPENDED
    assert text in str(handle.error)
    assert [x for x in house.store.steps(handle.id) if x.kind is StepKind.CHILD] == []


def test_a_saga_is_no_task_of_a_step(house: House, yard: Yard) -> None:
    @saga(name="n1")
    def body(run: Run) -> Any:
        return run.step(yard.kid.s("a"))

    _parks_with(house, body, "Write run.child(kid, ...)")


def test_a_child_is_a_saga(house: House, yard: Yard) -> None:
    @saga(name="n2")
    def body(run: Run) -> Any:
        return run.child(yard.do.si("a"))  # type: ignore[arg-type]

    _parks_with(house, body, "run.step(task.si(...))")


def test_arguments_that_do_not_fit_the_child_start_nothing(house: House, yard: Yard) -> None:
    @saga(name="n3")
    def body(run: Run) -> Any:
        return run.child(yard.kid)  # type: ignore[call-arg]

    _parks_with(house, body, "missing a required argument: 'name'")


def test_a_part_that_is_a_saga_takes_no_undo_and_is_not_detached(house: House, yard: Yard) -> None:
    @saga(name="n4")
    def undone(run: Run) -> Any:
        return run.group(step(yard.kid.s("a"), undo=yard.undo))

    @saga(name="n5")
    def detached(run: Run) -> Any:
        return run.group(yard.kid.options(detached=True).s("a"))

    @saga(name="n6")
    def bare(run: Run) -> Any:
        return run.group(yard.kid)  # type: ignore[call-overload]

    _parks_with(house, undone, "is undone by them")
    _parks_with(house, detached, "it is no part")
    _parks_with(house, bare, "write kid.s(...)")


def test_a_changed_child_is_told_from_the_recorded_one(house: House, yard: Yard) -> None:
    name = ["a"]

    @saga(name="n7")
    def body(run: Run) -> Any:
        return run.child(yard.waiter, name[0])

    handle = start(house, body)
    name[0] = "other"
    house.engine.signal(yard.row(handle.id, "waiter").task_id or "", "go", value_text='"!"')
    house.drain()

    assert handle.refresh().status is RunStatus.SUSPENDED
    assert "child 'waiter' (waiter) was ordered with the arguments" in str(handle.error)


def test_a_childs_key_is_a_label(house: House, yard: Yard) -> None:
    @saga(name="n8kid", key="{name}")
    def kid(run: Run, name: str) -> str | None:
        return run.key

    @saga(name="n8")
    def body(run: Run) -> list[str | None]:
        return [run.child(kid, "a"), run.child(kid, "a")]

    house.add(kid)

    assert start(house, body).wait(1) == ["a", "a"]


def test_a_signature_of_a_saga_starts_a_run_outside(house: House, yard: Yard) -> None:
    sig = yard.kid.options(priority=3).s("a")

    assert (sig["task"], sig["args"]) == ("saga.kid", ("a",))


def test_what_a_handle_would_read_in_a_body_is_refused_unless_it_is_recorded(house: House) -> None:
    yard = Yard(house)

    @saga(name="reads")
    def reads(run: Run) -> str:
        child = run.child(yard.kid.options(detached=True), "k")
        run.step(yard.do.si("later"))
        return run.record("status", lambda: child.status.value)

    @saga(name="peeks")
    def peeks(run: Run) -> str:
        return run.child(yard.kid.options(detached=True), "k").status.value

    house.add(reads, peeks)
    fine, wrong = reads.start(), peeks.start()
    house.drain()

    assert fine.wait(1) in ("queued", "running", "completed")
    assert wrong.status == "suspended"
    assert "run.record" in str(wrong.error)
