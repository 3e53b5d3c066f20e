"""Starting over with joins and scopes: what is cut, what is kept, what is undone first, what runs again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from celery_saga import IllegalTransition, Retry, Run, saga, step
from celery_saga.core.status import StepStatus
from tests.scenarios.bench import Bench, Boom
from tests.scenarios.house import House


def body_of(bench: Bench, how: Any, **options: Any) -> Any:
    @saga(name="again", errors=[Boom], **options)
    def body(run: Run) -> Any:
        run.step(bench.do.si("before"))
        got = how(run)
        return [got, run.step(bench.do.si("after"))]

    return body


def failed(house: House, bench: Bench, body: Any) -> Any:
    """A handle of a run that went as far as it could."""
    house.add(body)
    handle = body.start()
    house.drain()
    return handle


# -- retry of a failed run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [None, 1, 2])
def test_in_a_join_only_what_failed_or_was_cancelled_runs_again(
    house: House, bench: Bench, concurrency: int | None
) -> None:
    bench.fail["c"] = 1
    names = ["a", "b", "c", "d", "e"]
    body = body_of(
        bench, lambda run: run.group([bench.do.si(name) for name in names], concurrency=concurrency, name="all")
    )
    handle = failed(house, bench, body)
    done = {x.key for x in house.store.steps(handle.id) if x.join_key and x.status is StepStatus.DONE}
    assert handle.status == "failed"
    first = bench.since()

    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [names, "after"]
    again = bench.since()
    assert sorted(again) == sorted(
        [f"do {name}" for n, name in enumerate(names) if f"all[{n}]" not in done] + ["do after"]
    )
    assert "do before" in first
    assert handle.refresh().status == "completed"
    rows = {x.key: x for x in house.store.steps(handle.id)}
    assert {rows[key].born for key in done} == {1}
    assert rows["all[2]"].born == 2


def test_done_parts_with_an_undo_were_undone_and_run_again(house: House, bench: Bench) -> None:
    bench.fail["c"] = 1
    body = body_of(bench, lambda run: run.group([bench.step("a"), bench.do.si("b"), bench.do.si("c")], concurrency=1))
    handle = failed(house, bench, body)
    assert bench.since() == ["do before", "do a", "do b", "do c", "undo a"]

    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [["a", "b", "c"], "after"]
    assert bench.since() == ["do a", "do c", "do after"]


def test_a_failed_function_runs_again_as_a_whole_and_its_sibling_does_not(house: House, bench: Bench) -> None:
    bench.fail["p2"] = 1

    def part(run: Run) -> Any:
        run.step(bench.do.si("p1"))
        return run.step(bench.do.si("p2"))

    body = body_of(bench, lambda run: run.group([bench.do.si("a"), part], concurrency=1))
    handle = failed(house, bench, body)
    bench.since()
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [["a", "p2"], "after"]
    assert bench.since() == ["do p1", "do p2", "do after"]
    old = {(x.key, x.generation) for x in house.store.steps(handle.id)}
    assert ("group[1]/do", 2) in old


def test_a_map_keeps_what_is_done_and_the_order_of_its_items(house: House, bench: Bench) -> None:
    bench.fail["7"] = bench.fail["3"] = 1
    names = [str(n) for n in range(10)]
    body = body_of(bench, lambda run: list(run.map(bench.do, names, concurrency=3)))
    handle = failed(house, bench, body)
    count = len([x for x in bench.since() if x != "do before"])
    for _ in range(2):
        if handle.refresh().status != "completed":
            handle.retry()
            house.drain()

    assert handle.refresh().wait(1) == [names, "after"]
    calls = [x for x in bench.calls if x != "do after"]
    assert count + len(calls) <= len(names) + 2


def test_a_later_failure_leaves_a_join_before_it_alone(house: House, bench: Bench) -> None:
    bench.fail["after"] = 1
    body = body_of(bench, lambda run: list(run.map(bench.do, ["x", "y"])))
    handle = failed(house, bench, body)
    bench.since()
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [["x", "y"], "after"]
    assert bench.since() == ["do after"]


def test_a_part_of_a_join_that_was_over_is_done_again_where_it_was_undone(house: House, bench: Bench) -> None:
    bench.fail["after"] = 1
    body = body_of(bench, lambda run: run.group([bench.step("a"), bench.do.si("b")]))
    handle = failed(house, bench, body)
    assert Counter(bench.since()) == Counter(["do before", "do a", "do b", "do after", "undo a"])

    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [["a", "b"], "after"]
    assert bench.since() == ["do a", "do after"]


def test_a_named_part_runs_again_and_a_named_join_does_as_a_whole(house: House, bench: Bench) -> None:
    bench.fail["after"] = 2
    body = body_of(bench, lambda run: run.group([bench.do.si("a"), bench.do.si("b")]))
    handle = failed(house, bench, body)
    bench.since()
    handle.retry(from_step="group[1]")
    house.drain()
    assert bench.since() == ["do b", "do after"]

    handle.retry(from_step="group")
    house.drain()

    assert handle.refresh().wait(1) == [["a", "b"], "after"]
    assert sorted(bench.since()) == ["do a", "do after", "do b"]


def test_a_cut_before_a_join_cuts_all_of_it(house: House, bench: Bench) -> None:
    bench.fail["after"] = 1
    body = body_of(bench, lambda run: run.group([bench.step("a"), lambda run: run.step(bench.step("b"))]))
    handle = failed(house, bench, body)
    bench.since()
    handle.retry(from_step="do")
    house.drain()

    assert handle.refresh().wait(1) == [["a", "b"], "after"]
    assert Counter(bench.since()) == Counter(["do before", "do a", "do b", "do after"])


def test_nested_joins_are_cut_at_the_outermost_part(house: House, bench: Bench) -> None:
    bench.fail["y2"] = 1

    def part(name: str) -> Any:
        def inner(run: Run) -> list[str]:
            return list(run.map(bench.do, [f"{name}1", f"{name}2"], concurrency=1))

        return inner

    body = body_of(bench, lambda run: run.group([part("x"), part("y")], concurrency=1))
    handle = failed(house, bench, body)
    bench.since()
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [[["x1", "x2"], ["y1", "y2"]], "after"]
    assert bench.since() == ["do y1", "do y2", "do after"]


def test_a_cancelled_run_goes_on_where_its_join_was(house: House, bench: Bench) -> None:
    def part(run: Run) -> Any:
        return run.wait_signal("go")

    body = body_of(bench, lambda run: run.group([bench.do.si("a"), part]))
    handle = failed(house, bench, body)
    handle.cancel()
    house.drain()
    assert handle.refresh().status == "cancelled"
    bench.since()
    handle.retry()
    house.drain()
    handle.signal("go", 7)
    house.drain()

    assert handle.refresh().wait(1) == [["a", 7], "after"]
    assert bench.since() == ["do after"]


def test_a_won_race_is_kept_with_its_loser_undone(house: House, bench: Bench) -> None:
    bench.fail["after"] = 1

    def arm(run: Run) -> None:
        run.step(bench.step("loser"))
        run.wait_signal("never")

    body = body_of(bench, lambda run: run.race(arm=arm, go=lambda run: run.wait_signal("go")).name)
    handle = failed(house, bench, body)
    handle.signal("go", 1)
    house.drain()
    assert handle.refresh().status == "failed"
    assert Counter(bench.since()) == Counter(["do before", "do loser", "do after", "undo loser"])

    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == ["go", "after"]
    assert bench.since() == ["do after"]


def test_a_failed_child_in_a_group_starts_anew_and_its_sibling_does_not(house: House, bench: Bench) -> None:
    bench.fail["k2"] = 1

    @saga(name="kid again", errors=[Boom])
    def kid(run: Run) -> str:
        run.step(bench.step("k1"))
        return run.step(bench.step("k2"))  # type: ignore[no-any-return]

    house.add(kid)
    handle = failed(house, bench, body_of(bench, lambda run: run.group([bench.do.si("a"), kid.s()], concurrency=1)))
    assert (handle.status, bench.since()) == ("failed", ["do before", "do a", "do k1", "do k2", "undo k1"])
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [["a", "k2"], "after"]
    assert bench.since() == ["do k1", "do k2", "do after"]


# -- scopes ----------------------------------------------------------------------------------------------------------


def scoped(bench: Bench, *, is_caught: bool) -> Any:
    def how(run: Run) -> Any:
        try:
            with run.scope("ship"):
                run.step(bench.do.si("look"))
                run.step(bench.step("pack"))
                return run.step(bench.do.si("label"))
        except Boom:
            if not is_caught:
                raise
            return "caught"

    return how


def test_a_scope_that_failed_the_run_is_done_again_from_what_it_undid(house: House, bench: Bench) -> None:
    bench.fail["label"] = 1
    handle = failed(house, bench, body_of(bench, scoped(bench, is_caught=False)))
    assert bench.since() == ["do before", "do look", "do pack", "do label", "undo pack"]

    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == ["label", "after"]
    assert bench.since() == ["do pack", "do label", "do after"]


def test_a_scope_whose_error_was_caught_stays_left_and_undone(house: House, bench: Bench) -> None:
    bench.fail["label"] = bench.fail["after"] = 1
    handle = failed(house, bench, body_of(bench, scoped(bench, is_caught=True)))
    bench.since()
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == ["caught", "after"]
    assert bench.since() == ["do after"]


def test_a_step_named_in_a_left_scope_takes_up_the_scope_again(house: House, bench: Bench) -> None:
    bench.fail["label"] = bench.fail["after"] = 1
    handle = failed(house, bench, body_of(bench, scoped(bench, is_caught=True)))
    bench.since()
    handle.retry(from_step="ship/do#3")
    house.drain()

    assert handle.refresh().wait(1) == ["label", "after"]
    assert bench.since() == ["do pack", "do label", "do after"]


def test_a_step_after_a_scope_leaves_the_scope_alone(house: House, bench: Bench) -> None:
    bench.fail["after"] = 1
    handle = failed(house, bench, body_of(bench, lambda run: _scope_of(run, bench)))
    bench.since()
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == ["b", "after"]
    assert bench.since() == ["do after"]


def _scope_of(run: Run, bench: Bench) -> Any:
    with run.scope("ship"):
        run.step(bench.do.si("a"))
        return run.step(bench.do.si("b"))


def test_a_join_in_a_scope_is_kept_with_what_is_done(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    def how(run: Run) -> Any:
        with run.scope("ship"):
            run.step(bench.do.si("a"))
            return run.group([bench.do.si("x"), bench.do.si("b")], concurrency=1)

    handle = failed(house, bench, body_of(bench, how))
    bench.since()
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == [["x", "b"], "after"]
    assert bench.since() == ["do b", "do after"]


# -- the saga's own retry, and on_failure="suspend" ------------------------------------------------------------------


def test_the_sagas_own_retry_runs_only_the_failed_part_again(house: House, bench: Bench) -> None:
    bench.fail["b"] = 2
    body = body_of(
        bench,
        lambda run: run.group([bench.step("a"), bench.do.si("b"), bench.do.si("c")], concurrency=1),
        retry=Retry(3, delay=1, jitter=False),
    )
    handle = failed(house, bench, body)
    for _ in range(10):
        house.advance(1)

    assert handle.refresh().wait(1) == [["a", "b", "c"], "after"]
    assert bench.since() == ["do before", "do a", "do b", "do b", "do b", "do c", "do after"]


def test_the_sagas_own_retry_is_bounded_where_something_is_undone_first(house: House, bench: Bench) -> None:
    bench.fail["p2"] = 100

    def part(run: Run) -> Any:
        run.step(bench.step("p1"))
        return run.step(bench.do.si("p2"))

    body = body_of(bench, lambda run: run.group([part]), retry=Retry(3, delay=0, jitter=False))
    handle = failed(house, bench, body)
    for _ in range(10):
        house.advance(1)

    assert handle.refresh().status == "failed"
    assert bench.since() == ["do before"] + ["do p1", "do p2", "undo p1"] * 3


def test_the_sagas_own_retry_takes_up_a_left_scope_again(house: House, bench: Bench) -> None:
    bench.fail["label"] = 1
    body = body_of(bench, scoped(bench, is_caught=False), retry=Retry(3, delay=0, jitter=False))
    handle = failed(house, bench, body)
    for _ in range(3):
        house.advance(1)

    assert handle.refresh().wait(1) == ["label", "after"]
    assert bench.since() == [
        "do before",
        "do look",
        "do pack",
        "do label",
        "undo pack",
        "do pack",
        "do label",
        "do after",
    ]


def test_the_sagas_own_retry_leaves_a_failed_step_that_others_follow(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    def how(run: Run) -> str:
        try:
            run.group([bench.do.si("a"), bench.do.si("b")], concurrency=1)
        except Boom:
            run.step(bench.step("told"))
            raise
        return "never"

    handle = failed(house, bench, body_of(bench, how, retry=Retry(3, delay=0, jitter=False)))
    for _ in range(3):
        house.advance(1)

    assert handle.refresh().status == "failed"
    assert bench.since() == ["do before", "do a", "do b", "do told", "undo told"]


def test_the_sagas_own_retry_leaves_no_shield_behind(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1

    def how(run: Run) -> Any:
        with run.shield():
            run.step(bench.do.si("a"))
            return run.step(bench.do.si("b"))

    body = body_of(bench, how, retry=Retry(3, delay=0, jitter=False))
    handle = failed(house, bench, body)
    for _ in range(3):
        house.advance(1)

    assert handle.refresh().wait(1) == ["b", "after"]
    assert bench.since() == ["do before", "do a", "do b", "do b", "do after"]
    assert house.engine.run_of(handle.id).shields == 0


def test_a_new_generation_holds_no_shield_of_a_part_that_was_abandoned(house: House, bench: Bench) -> None:
    bench.fail["b"] = bench.fail["after"] = 1

    def arm(run: Run) -> None:
        with run.shield():
            run.wait_signal("never")

    def how(run: Run) -> str:
        try:
            run.group([arm, bench.do.si("b")])
        except Boom:
            return "caught"
        return "never"

    handle = failed(house, bench, body_of(bench, how))
    assert handle.status == "failed"
    handle.retry()
    house.drain()

    assert handle.refresh().wait(1) == ["caught", "after"]
    assert house.engine.run_of(handle.id).shields == 0


def test_a30_resume_runs_only_the_failed_part_again(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1
    body = body_of(
        bench, lambda run: run.group([bench.step("a"), bench.do.si("b")], concurrency=1), on_failure="suspend"
    )
    handle = failed(house, bench, body)
    assert (handle.status, bench.since()) == ("suspended", ["do before", "do a", "do b"])

    handle.resume()
    house.drain()

    assert handle.refresh().wait(1) == [["a", "b"], "after"]
    assert bench.since() == ["do b", "do after"]


def test_resume_waits_for_a_sibling_that_still_runs_and_undoes_it_first(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1
    body = body_of(bench, lambda run: run.group([bench.step("slow"), bench.do.si("b")]), on_failure="suspend")
    house.add(body)
    handle = body.start()
    while not any(x.key == "group" for x in house.store.steps(handle.id)):
        house.deliver(house.messages.pop(0))
    slow = house.claim(next(x for x in house.store.steps(handle.id) if x.key == "group[0]"), "house:2")
    assert slow is not None
    house.drain()
    assert handle.refresh().status == "suspended"
    bench.since()

    handle.resume()
    house.drain()
    assert bench.since() == []
    house.finish(slow)
    house.drain()

    assert handle.refresh().wait(1) == [["slow", "b"], "after"]
    assert bench.since()[:2] == ["do slow", "undo slow"]


# -- skip ------------------------------------------------------------------------------------------------------------


def test_a_skipped_part_counts_as_in_and_the_run_goes_on(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1
    body = body_of(
        bench, lambda run: run.group([bench.step("a"), bench.do.si("b")], concurrency=1), on_failure="suspend"
    )
    handle = failed(house, bench, body)
    bench.since()
    handle.skip("group[1]", "by hand")
    house.drain()

    assert handle.refresh().wait(1) == [["a", "by hand"], "after"]
    assert bench.since() == ["do after"]


def test_after_a_skipped_part_the_parts_that_were_cancelled_run(house: House, bench: Bench) -> None:
    bench.fail["a"] = 1
    body = body_of(
        bench, lambda run: run.group([bench.do.si("a"), bench.do.si("b")], concurrency=1), on_failure="suspend"
    )
    handle = failed(house, bench, body)
    bench.since()
    handle.skip("group[0]", "by hand")
    house.drain()

    assert handle.refresh().wait(1) == [["by hand", "b"], "after"]
    assert bench.since() == ["do b", "do after"]


def test_a_part_that_has_not_started_is_skipped_and_counts_once(house: House, bench: Bench) -> None:
    bench.fail["a"] = 1
    body = body_of(
        bench,
        lambda run: run.group(
            {"a": step(bench.do.si("a"), retry=Retry(5, delay=60)), "b": bench.do.si("b")},
        ),
    )
    handle = failed(house, bench, body)
    handle.skip("group[a]", "by hand")
    house.drain()

    assert handle.refresh().wait(1) == [{"a": "by hand", "b": "b"}, "after"]


def test_a_failed_part_of_a_collected_join_is_counted_once(house: House, bench: Bench) -> None:
    bench.fail["a"] = 1

    def how(run: Run) -> Any:
        got = run.group([bench.do.si("a"), lambda run: run.wait_signal("go")], on_failure="collect")
        return [x.output for x in got.results]

    handle = failed(house, bench, body_of(bench, how))
    handle.skip("group[0]", "by hand")
    house.drain()
    assert handle.refresh().status == "waiting"
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().wait(1) == [["by hand", 1], "after"]


@pytest.mark.parametrize(("key", "result"), [("group[1]/do", "x"), ("group", None), ("group", ["one"]), ("group", 7)])
def test_a_skip_that_makes_no_sense_is_refused(house: House, bench: Bench, key: str, result: Any) -> None:
    bench.fail["b"] = 1
    body = body_of(
        bench,
        lambda run: run.group([bench.do.si("a"), lambda run: run.step(bench.do.si("b"))], concurrency=1),
        on_failure="suspend",
    )
    handle = failed(house, bench, body)
    before = house.engine.run_of(handle.id)
    with pytest.raises(IllegalTransition, match="nothing was changed"):
        handle.skip(key, result)

    assert house.engine.run_of(handle.id) == before


def test_a_failed_join_is_skipped_with_the_results_of_all_parts(house: House, bench: Bench) -> None:
    bench.fail["b"] = 1
    body = body_of(bench, lambda run: run.group([bench.do.si("a"), bench.do.si("b")]), on_failure="suspend")
    handle = failed(house, bench, body)
    bench.since()
    handle.skip("group", ["p", "q"])
    house.drain()

    assert handle.refresh().wait(1) == [["p", "q"], "after"]
    assert bench.since() == ["do after"]


# -- undos without a step --------------------------------------------------------------------------------------------


def test_undos_without_a_step_have_their_place_in_scopes_and_parts(house: House, bench: Bench) -> None:
    bench.fail["after"] = 1

    def how(run: Run) -> str:
        def part(run: Run) -> Any:
            run.step(bench.step("p1"))
            run.on_undo(bench.undo.si("registered in part"))
            return run.step(bench.step("p2"))

        with run.scope("ship"):
            run.step(bench.step("s1"))
            run.on_undo(bench.undo.si("registered in scope"))
            run.step(bench.step("s2"))
        return str(run.group([part]))

    handle = failed(house, bench, body_of(bench, how))

    assert handle.status == "failed"
    assert [x for x in bench.since() if x.startswith("undo")] == [
        "undo p2",
        "undo registered in part",
        "undo p1",
        "undo s2",
        "undo registered in scope",
        "undo s1",
    ]


def test_an_undo_without_a_step_in_a_losing_arm_is_executed_when_it_loses(house: House, bench: Bench) -> None:
    def how(run: Run) -> str:
        def arm(run: Run) -> None:
            run.on_undo(bench.undo.si("registered"))
            run.wait_signal("never")

        return run.race(arm=arm, go=lambda run: run.wait_signal("go")).name

    handle = failed(house, bench, body_of(bench, how))
    handle.signal("go", 1)
    house.drain()

    assert handle.refresh().wait(1) == ["go", "after"]
    assert "undo registered" in bench.calls
