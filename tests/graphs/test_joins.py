"""Maps and parallel branches of graphs: order, bounds, collecting, aborting, branches that are chains."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_saga import RunFailed, RunHandle, Saga
from tests.graphs.corpus import END, graph, step
from tests.scenarios.house import House

NAMES = itertools.count(1)
Run = Callable[..., RunHandle[Any]]


@pytest.fixture
def begin(house: House) -> Run:
    """Starts a run of states, which none has seen before."""

    def begin(states: dict[str, Any], given: Any = None) -> RunHandle[Any]:
        saga = Saga.from_graph({**graph(states), "name": f"j-{next(NAMES)}"})
        house.add(saga)
        return saga.start(given)

    return begin


def test_a13_a_map_joins_in_input_order_with_a_bounded_number_in_flight(house: House, begin: Run) -> None:
    @house.task("j.double")
    def double(item: int) -> int:
        return item * 2

    double_all = {"task": "j.double", "items": "$.input", "concurrency": 2}
    handle = begin({"double": {"map": double_all, "on": {"ok": "done"}}, "done": END}, [1, 2, 3])

    first, second = house.claim_next(), house.claim_next()
    house.drain()
    beside = [each.status.value for each in handle.steps() if each.key not in ("double", first.step.key)]
    house.finish(second)
    house.drain()
    house.finish(first)
    house.drain()

    assert "scheduled" not in beside and "held" in beside
    assert handle.wait(1) == [2, 4, 6]


def test_a14_collect_goes_on_by_ok_with_named_results(house: House, begin: Run) -> None:
    for name in "ac":

        @house.task(f"j.{name}")
        def succeeds(_: object, name: str = name) -> str:
            return name.upper()

    @house.task("j.b")
    def fails(_: object) -> None:
        raise LookupError("no b")

    branches = {name: {"step": f"j.{name}"} for name in "abc"}
    states = {
        "both": {"parallel": {"branches": branches, "on_failure": "collect"}, "on": {"ok": "done", "fail": "lost"}},
        "done": END,
        "lost": {"end": "failed"},
    }
    handle = begin(states, 1)
    house.drain()

    output = handle.wait(1)

    assert (output["succeeded"], output["failed"]) == (2, 1)
    assert [each["name"] for each in output["results"]] == ["a", "b", "c"]
    assert [each["output"] for each in output["results"]] == ["A", None, "C"]
    assert [each["error"] and each["error"]["message"] for each in output["results"]] == [None, "no b", None]


# -- what differs between databases is none of these tests' business -----------------------------------------------
@pytest.fixture
def small() -> Iterator[House]:
    """A house in memory."""
    with House("sqlite://") as built:
        yield built


@pytest.fixture
def calls() -> list[tuple[str, Any]]:
    return []


@pytest.fixture
def run(small: House, calls: list[tuple[str, Any]]) -> Run:
    """Runs states until they rest; the tasks give back what they get, and fail for `bad`."""

    def work(name: str) -> None:
        @small.task(f"j.{name}")
        def task(*args: Any) -> Any:
            calls.append((name, list(args)))
            if "bad" in args:
                raise LookupError("none left")
            return f"{name} {args[0]}" if args else name

    for name in ("one", "two", "three", "undo"):
        work(name)

    def run(states: dict[str, Any], given: Any = None, **others: Any) -> RunHandle[Any]:
        saga = Saga.from_graph({**graph(states), "name": f"j-{next(NAMES)}"}, **others)
        small.add(saga)
        handle = saga.start(given)
        small.drain()
        return handle

    return run


def mapped(on_failure: str = "abort", **others: Any) -> dict[str, Any]:
    on = {"ok": "done", **others.pop("on", {})}
    return {"map": {"task": "j.one", "items": "$.input", "on_failure": on_failure}, **others, "on": on}


def test_a_map_of_nothing_gives_nothing(run: Run) -> None:
    assert run({"all": mapped(), "done": END}, []).wait(1) == []


def test_an_item_comes_before_the_arguments_of_its_map(run: Run, calls: Any) -> None:
    said = {"task": "j.one", "items": "$.input.lines", "args": ["$.input.id"]}

    run({"all": {"map": said, "on": {"ok": "done"}}, "done": END}, {"lines": ["x", "y"], "id": "o1"})

    assert sorted(calls) == [("one", ["x", "o1"]), ("one", ["y", "o1"])]


@pytest.mark.parametrize("items", [None, "text", {"a": 1}, {1, 2}])
def test_a_map_over_no_list_parks_the_run(run: Run, items: object) -> None:
    handle = run({"all": mapped(on={"fail": "done"}), "done": END}, items)

    assert handle.status == "suspended"
    assert "no list" in str(handle.error)


def test_a_failing_item_takes_fail_and_undoes_nothing_while_the_run_goes_on(run: Run, calls: Any) -> None:
    states = {"all": mapped(undo="j.undo", on={"fail": "lost"}), "done": END, "lost": {**END, "output": "lost"}}

    assert run(states, ["x", "bad"]).wait(1) == "lost"
    assert ("one", ["x"]) in calls


def test_a_failed_end_after_a_map_undoes_its_items(run: Run, calls: Any) -> None:
    states = {
        "all": mapped(undo="j.undo", on={"ok": "two"}),
        "two": step("done", args=["bad"], undo="j.undo") | {"step": "j.two"},
        "done": END,
    }

    handle = run(states, ["x", "y"])

    assert sorted(args[0] for name, args in calls if name == "undo") == ["one x", "one y"]
    with pytest.raises(RunFailed, match="none left"):
        handle.wait(1)


def test_a_collected_map_tells_output_and_error_of_each_item(run: Run) -> None:
    handle = run({"all": mapped("collect"), "done": {**END, "output": "$.all.results"}}, ["x", "bad"])

    error = {"state": "all", "type": "builtins.LookupError", "message": "none left", "step": "all"}
    assert handle.wait(1) == [
        {"name": "0", "output": "one x", "error": None},
        {"name": "1", "output": None, "error": error},
    ]


def test_branches_are_steps_and_chains_of_states(run: Run, calls: Any) -> None:
    chain = {
        "start": "b1",
        "states": {
            "b1": {"step": "j.two", "args": ["$.first", "$.input"], "on": {"ok": "b2"}},
            "b2": {"choice": [{"path": "$.b1", "eq": "two one x", "to": "b3"}, {"else": "b4"}]},
            "b3": {"step": "j.three", "on": {"ok": "b4"}},
            "b4": {"end": True},
        },
    }
    states = {
        "first": {"step": "j.one", "on": {"ok": "both"}},
        "both": {"parallel": {"branches": {"a": {"step": "j.one"}, "b": chain}}, "on": {"ok": "done"}},
        "done": {**END, "output": ["$.both.b", "$.both.a", "$.first"]},
    }

    assert run(states, "x").wait(1) == ["three two one x", "one one x", "one x"]
    assert ("two", ["one x", "x"]) in calls


def test_a_branch_that_ends_as_failed_fails_the_state(run: Run) -> None:
    chain = {"start": "b1", "states": {"b1": {"choice": [{"else": "b2"}]}, "b2": {"end": "failed"}}}
    states = {
        "both": {"parallel": {"branches": {"b": chain}}, "on": {"ok": "done", "fail": "tell"}},
        "tell": {"step": "j.one", "args": ["$.error.message"], "on": {"ok": "done"}},
        "done": END,
    }

    assert "the state 'b2' ends it as failed" in run(states, "x").wait(1)


def test_a_branch_takes_its_own_errors(run: Run) -> None:
    chain = {
        "start": "b1",
        "states": {
            "b1": {"step": "j.one", "args": ["bad"], "on": {"ok": "b2", "fail": "b3"}},
            "b2": {"end": True},
            "b3": {"end": True, "output": "$.error.message"},
        },
    }
    states = {
        "both": {"parallel": {"branches": {"a": {"step": "j.two"}, "b": chain}}, "on": {"ok": "done"}},
        "done": END,
    }

    assert run(states, "x").wait(1) == {"a": "two x", "b": "none left"}


def test_a_failed_branch_ends_the_run_and_undoes_the_other(run: Run, calls: Any) -> None:
    branches = {"a": {"step": "j.one", "undo": "j.undo"}, "b": {"step": "j.two", "args": ["bad"]}}
    states = {"both": {"parallel": {"branches": branches, "concurrency": 1}, "on": {"ok": "done"}}, "done": END}

    handle = run(states, "x")

    assert handle.status == "failed"
    assert calls == [("one", ["x"]), ("two", ["bad"]), ("undo", ["one x"])]


def test_a_loop_passes_a_join_again_under_a_key_of_its_own(run: Run) -> None:
    chain = {"start": "b1", "states": {"b1": {"step": "j.two", "on": {"ok": "b2"}}, "b2": {"end": True}}}
    states = {
        "both": {"parallel": {"branches": {"a": {"step": "j.one"}, "b": chain}}, "on": {"ok": "all"}},
        "all": mapped(on={"ok": "fork"}),
        "fork": {"choice": [{"path": "$.both.a", "eq": "one ['one x']", "to": "done"}, {"else": "both"}]},
        "done": {**END, "output": "$.both.b"},
    }

    handle = run(states, ["x"])

    assert handle.wait(1) == "two ['one x']"
    keys = [each.key for each in handle.steps() if each.kind.value == "join"]
    assert keys == ["both", "all", "both#2", "all#2"]


def test_a_worker_that_never_saw_the_graph_follows_its_branches(small: House, run: Run) -> None:
    chain = {"start": "b1", "states": {"b1": {"signal": "go", "on": {"signal": "b2"}}, "b2": {"end": True}}}
    states = {
        "both": {"parallel": {"branches": {"z": chain, "a": {"step": "j.one"}}}, "on": {"ok": "done"}},
        "done": END,
    }
    handle = run(states, "x")
    small.registry._sagas.clear()

    handle.signal("go", 5)
    small.drain()

    assert list(handle.wait(1).items()) == [("z", 5), ("a", "one x")]
