"""`run.patched()`: runs that had passed a place keep the old way, the others take the new one, each for ever."""

from __future__ import annotations

from typing import Any

import pytest

from celery_saga import Run, Saga, saga
from celery_saga.core import decision
from celery_saga.core.decision import Mismatch, Raised
from celery_saga.core.records import StepKind
from celery_saga.definition.registry import Registry
from tests.definition.passes import NOW, Passes
from tests.definition.tasks import charge, refund


@saga(name="patched_before")
def before(run: Run) -> list[str]:
    return [run.step(charge.si("a"), name="a"), run.step(charge.si("b"), name="b")]


@saga(name="patched_after")
def after(run: Run) -> list[str]:
    way = [run.step(charge.si("new"), name="new")] if run.patched("fraud-check") else ["old"]
    return [*way, run.step(charge.si("a"), name="a"), run.step(charge.si("b"), name="b")]


def deploy(passes: Passes, changed: Saga[..., Any]) -> None:
    """The same run, under other code."""
    passes.registry = Registry(())
    passes.registry._sagas[passes.snapshot.run.saga, 1] = changed


def markers(passes: Passes) -> list[str]:
    return [x.key for x in passes.snapshot.steps.values() if x.kind is StepKind.PATCH]


def test_a_run_that_begins_with_the_change_takes_it_and_records_that() -> None:
    passes = Passes(after)

    orders = passes.order()

    assert [(x.kind, x.key) for x in orders] == [(StepKind.PATCH, "fraud-check!patched"), (StepKind.STEP, "new")]
    passes.done("new", "new")
    assert [x.key for x in passes.order()] == ["a"]
    passes.done("a", "a")
    passes.order()
    passes.done("b", "b")
    assert passes.result() == ["new", "a", "b"]


def test_a_run_that_has_passed_the_place_stays_as_it_was_and_records_nothing() -> None:
    passes = Passes(before)
    passes.order()

    deploy(passes, after)

    assert passes.order() == []
    passes.done("a", "a")
    assert [x.key for x in passes.order()] == ["b"]
    passes.done("b", "b")
    assert passes.result() == ["old", "a", "b"]
    assert markers(passes) == []


def test_a_run_whose_next_step_is_behind_the_place_takes_the_change() -> None:
    @saga(name="patched_later")
    def later(run: Run) -> list[Any]:
        first = run.step(charge.si("a"), name="a")
        second = run.step(charge.si("new"), name="new") if run.patched("x") else run.step(charge.si("b"), name="b")
        return [first, second]

    passes = Passes(before)
    passes.order()
    deploy(passes, later)
    assert passes.order() == []
    passes.done("a", "a")

    assert [x.key for x in passes.order()] == ["x!patched", "new"]
    assert passes.order() == []
    passes.done("new", "n")
    assert passes.result() == ["a", "n"]


def test_one_id_that_stands_twice_is_answered_as_its_first_place_says() -> None:
    @saga(name="patched_twice")
    def twice(run: Run) -> list[bool]:
        first = run.patched("x")
        run.step(charge.si("a"), name="a")
        second = run.patched("x")
        run.step(charge.si("b"), name="b")
        return [first, second, run.patched("x")]

    passes = Passes(before)
    passes.order()
    deploy(passes, twice)
    passes.done("a")
    assert [x.key for x in passes.order()] == ["b"]
    passes.done("b")
    assert passes.result() == [False, False, False]

    fresh = Passes(twice)
    fresh.order()
    fresh.done("a")
    fresh.order()
    fresh.done("b")
    assert fresh.result() == [True, True, True]
    assert markers(fresh) == ["x!patched"]


def test_each_id_is_answered_for_itself() -> None:
    @saga(name="patched_ids")
    def ids(run: Run) -> list[bool]:
        first = run.patched("x")
        run.step(charge.si("a"), name="a")
        second = run.patched("y")
        run.step(charge.si("b"), name="b")
        return [first, second]

    passes = Passes(before)
    passes.order()
    deploy(passes, ids)
    passes.done("a")
    assert [x.key for x in passes.order()] == ["y!patched", "b"]
    passes.done("b")
    assert passes.result() == [False, True]


def test_in_a_loop_the_runs_that_have_begun_it_end_it_the_old_way() -> None:
    def body(run: Run, changed: bool) -> list[str]:
        found = []
        for number in range(3):
            is_new = changed and run.patched("x")
            found.append(run.step(charge.si(str(number)), name=f"{'new' if is_new else 'old'}{number}"))
        return found

    @saga(name="patched_loop_before")
    def loop_before(run: Run) -> list[str]:
        return body(run, False)

    @saga(name="patched_loop")
    def loop(run: Run) -> list[str]:
        return body(run, True)

    passes = Passes(loop_before)
    passes.order()
    passes.done("old0")
    passes.order()
    deploy(passes, loop)
    passes.done("old1")

    assert [x.key for x in passes.order()] == ["old2"]
    assert [x.key for x in Passes(loop).order()] == ["x!patched", "new0"]


def test_the_old_way_may_go_once_no_run_is_on_it() -> None:
    @saga(name="patched_cleaned")
    def cleaned(run: Run) -> list[str]:
        return [run.step(charge.si(x), name=x) for x in ("new", "a", "b")]

    passes = Passes(after)
    passes.order()
    passes.done("new", "n")
    passes.order()
    deploy(passes, cleaned)
    passes.done("a", "a")
    assert [x.key for x in passes.order()] == ["b"]
    passes.done("b", "b")
    assert passes.result() == ["n", "a", "b"]

    left = Passes(before)
    left.order()
    deploy(left, cleaned)
    assert isinstance(left.decide().end, Mismatch)


def test_code_of_before_the_change_parks_a_run_that_has_taken_it() -> None:
    passes = Passes(after)
    passes.order()
    deploy(passes, before)

    end = passes.decide().end

    assert isinstance(end, Mismatch)
    assert "'new'" in end.error.message and "'a'" in end.error.message
    assert "has not asked for 'fraud-check', which the run has taken up" in end.error.message


def test_a_change_in_front_of_a_bug_is_kept_with_the_parked_run() -> None:
    @saga(name="patched_bug")
    def bug(run: Run) -> None:
        if run.patched("x"):
            raise ValueError("a bug")

    passes = Passes(bug)
    decided = passes.decide()

    assert isinstance(decided.end, Raised)
    passes.snapshot = decision.apply(passes.snapshot, decided, NOW, 30.0)
    assert markers(passes) == ["x!patched"]


def test_an_undo_of_a_step_is_nothing_that_lies_behind() -> None:
    @saga(name="patched_undo")
    def undone(run: Run) -> bool:
        run.step(charge.si("a"), name="a", undo=refund)
        return run.patched("x")

    passes = Passes(undone)
    passes.order()
    passes.done("a")

    assert passes.result() is True


@pytest.mark.parametrize("name", ["", "a/b", "a!b", "a#2", "a[0]", "x" * 101, "a\nb", None, 3])
def test_what_cannot_name_a_change_is_a_bug_of_the_body(name: Any) -> None:
    @saga(name="patched_named")
    def named(run: Run) -> bool:
        return run.patched(name)

    raised = Passes(named).raised()

    assert not raised.declared
    assert "run.patched() takes the name of a change" in raised.error.message


def test_the_function_of_a_record_cannot_ask_it() -> None:
    @saga(name="patched_recording")
    def recording(run: Run) -> bool:
        return run.record("flag", lambda: run.patched("x"))

    assert "run.record('flag')" in Passes(recording).raised().error.message


def test_long_arguments_are_shown_where_they_differ() -> None:
    word = "x" * 5000

    @saga(name="patched_before_long")
    def long_before(run: Run) -> None:
        run.step(charge.si(word + "a", cents=1))

    @saga(name="patched_after_long")
    def long_after(run: Run) -> None:
        run.step(charge.si(word + "b", cents=1))

    passes = Passes(long_before)
    passes.order()
    deploy(passes, long_after)

    end = passes.decide().end

    assert isinstance(end, Mismatch)
    assert 'xa"],{"cents":1}], the body now gives ...x' in end.error.message.replace(": ", ":").replace("], {", "],{")
    assert len(end.error.message) < 1000
