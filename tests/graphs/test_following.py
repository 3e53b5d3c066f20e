"""Runs follow their graph: transitions, choices, waits, paths, policies and ends."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from celery_saga import RunFailed, RunHandle, Saga, SagaError, SignalNotExpected, SignalTimeout, StepFailed
from celery_saga.core.records import StepKind
from celery_saga.definition import declared
from tests.graphs.corpus import END, graph
from tests.scenarios.house import House

NAMES = itertools.count(1)


@pytest.fixture
def house() -> Iterator[House]:
    """One house, in memory: what differs between databases is none of these tests' business."""
    with House("sqlite://") as built:
        yield built


@pytest.fixture
def calls(house: House) -> list[tuple[str, Any]]:
    """What was called, with its positional arguments, by the tasks of `serve`."""
    return []


@pytest.fixture
def serve(house: House, calls: list[tuple[str, Any]]) -> Callable[..., None]:
    """Registers a task that gives what it is told, one after the other; an exception is raised."""

    def serve(name: str, *answers: Any) -> None:
        left = list(answers or [None])

        @house.task(name)
        def task(*args: Any, **kwargs: Any) -> Any:
            calls.append((name, [*args, kwargs] if kwargs else list(args)))
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

    return serve


@pytest.fixture
def run(house: House) -> Callable[..., RunHandle[Any]]:
    """Runs states until they rest."""

    def run(states: Mapping[str, Any], given: Any = None, **others: Any) -> RunHandle[Any]:
        saga = Saga.from_graph({**graph(states), "name": f"f-{next(NAMES)}", **others})
        house.add(saga)
        handle = saga.start(given)
        house.drain()
        return handle

    return run


Serve = Callable[..., None]
Calls = list[tuple[str, Any]]
Runs = Callable[..., RunHandle[Any]]


def step(task: str, ok: str = "done", **others: Any) -> dict[str, Any]:
    return {"step": task, **others, "on": {"ok": ok, **others.get("on", {})}}


# -- arguments -----------------------------------------------------------------------------------------------------
def test_a_step_without_arguments_gets_the_previous_output_as_in_a_chain(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", "first")
    serve("two", "second")

    handle = run({"a": step("one", "b"), "b": step("two"), "done": END}, "input")

    assert calls == [("one", ["input"]), ("two", ["first"])]
    assert handle.wait(1) == "second"


def test_waits_and_choices_hand_the_previous_output_on(house: House, serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", "first")
    serve("two")
    states = {
        "a": step("one", "pause"),
        "pause": {"wait": 5, "on": {"ok": "fork"}},
        "fork": {"choice": [{"else": "b"}]},
        "b": step("two"),
        "done": END,
    }

    run(states)
    house.advance(6)

    assert calls[-1] == ("two", ["first"])


def test_paths_reach_into_input_and_outputs(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", {"id": 7, "lines": [{"sku": "x"}, {"sku": "y"}]})
    serve("two")
    args = ["$.input.order.id", "$.a.lines[1].sku", "$.a.lines.0.sku", {"all": ["$.a.id", "$$5"]}, None, "plain"]

    run(
        {"a": step("one", "b", args=[]), "b": step("two", args=args, kwargs={"n": "$.a.id"}), "done": END},
        {"order": {"id": "o1"}},
    )

    assert calls == [("one", []), ("two", ["o1", "y", "x", {"all": [7, "$5"]}, None, "plain", {"n": 7}])]


def test_keyword_arguments_alone_are_all_that_is_given(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one")

    run({"a": step("one", kwargs={"n": "$.input"}), "done": END}, 3)

    assert calls == [("one", [{"n": 3}])]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["$.input.b"], "$.input.b: $.input has no 'b'"),
        (["$.input.a[1]"], "$.input.a[1]: $.input.a has 1 items"),
        (["$.input.a.x"], "$.input.a.x: $.input.a is list, which has no 'x'"),
    ],
)
def test_a_path_that_ends_early_parks_the_run_and_calls_nothing(
    serve: Serve, calls: Calls, run: Runs, args: list[str], told: str
) -> None:
    serve("one")

    handle = run({"a": step("one", args=args, on={"fail": "done"}), "done": END}, {"a": [1]})

    assert handle.status == "suspended"
    assert told in str(handle.error) and "state 'a'" in str(handle.error)
    assert calls == []


def test_a_path_to_a_state_that_this_run_did_not_pass_parks_it(serve: Serve, run: Runs) -> None:
    serve("one", 1)
    states = {
        "fork": {"choice": [{"path": "$.input", "eq": 1, "to": "a"}, {"else": "b"}]},
        "a": step("one", "b"),
        "b": step("one", args=["$.a"]),
        "done": END,
    }

    assert run(states, 1).status == "completed"
    handle = run(states, 2)

    assert handle.status == "suspended"
    assert "has not passed the state 'a'" in str(handle.error)


def test_outputs_keep_their_types(serve: Serve, calls: Calls, run: Runs) -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    serve("one", {"at": at, "price": Decimal("1.50"), "tags": {"x"}})
    serve("two")

    run({"a": step("one", "b"), "b": step("two", args=["$.a.at", "$.a.price", "$.a.tags"]), "done": END})

    assert calls[-1] == ("two", [at, Decimal("1.50"), {"x"}])


# -- transitions ---------------------------------------------------------------------------------------------------
def test_fail_takes_the_error_and_tells_it(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", LookupError("none left"))
    serve("tell", "told")
    states = {"a": step("one", on={"fail": "b"}), "b": step("tell", args=["$.error"]), "done": END}

    handle = run(states)

    error = {"state": "a", "type": "builtins.LookupError", "message": "none left", "step": "a"}
    assert calls[-1] == ("tell", [error])
    assert handle.wait(1) == "told"


def test_after_fail_the_previous_output_is_that_of_the_state_before(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", "charge-1")
    serve("two", LookupError("none left"))
    serve("refund")
    states = {"a": step("one", "b"), "b": step("two", on={"fail": "c"}), "c": step("refund"), "done": END}

    run(states)

    assert calls[-1] == ("refund", ["charge-1"])


def test_without_fail_an_error_ends_the_run_and_undoes_it(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", "charge-1")
    serve("two", LookupError("none left"))
    serve("refund")

    handle = run({"a": step("one", "b", undo="refund"), "b": step("two"), "done": END})

    assert calls[-1] == ("refund", ["charge-1"])
    with pytest.raises(RunFailed, match="none left"):
        handle.wait(1)


def test_a_step_that_failed_and_was_caught_is_not_undone_and_nothing_else_while_the_run_goes_on(
    serve: Serve, calls: Calls, run: Runs
) -> None:
    serve("one", "charge-1")
    serve("two", LookupError("none left"))
    serve("undo")
    states = {
        "a": step("one", "b", undo="undo"),
        "b": step("two", undo="undo", on={"fail": "done"}),
        "done": END,
    }

    assert run(states).status == "completed"
    assert [name for name, _ in calls] == ["one", "two"]


def test_a_failed_end_undoes_what_was_done_with_the_last_error_as_cause(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", "charge-1")
    serve("two", LookupError("none left"))
    serve("tell")
    serve("undo")
    states = {
        "a": step("one", "b", undo="undo"),
        "b": step("two", on={"fail": "c"}),
        "c": step("tell", "lost"),
        "done": END,
        "lost": {"end": "failed"},
    }

    handle = run(states)

    assert [name for name, _ in calls] == ["one", "two", "tell", "undo"]
    with pytest.raises(RunFailed) as caught:
        handle.wait(1)
    assert isinstance(caught.value.cause, LookupError)
    assert caught.value.cause.__notes__ == ["state 'b' failed, and the state 'lost' ended the run as failed"]


def test_a_failed_end_without_any_error_says_which_state_it_was(run: Runs) -> None:
    handle = run({"fork": {"choice": [{"else": "lost"}]}, "lost": {"end": "failed"}})

    assert handle.status == "failed"
    assert isinstance(handle.error, SagaError)
    assert "the state 'lost' ends it as failed" in str(handle.error)


def test_an_error_that_was_mended_is_not_the_cause_of_a_later_failed_end(serve: Serve, run: Runs) -> None:
    serve("one", LookupError("flaky"), "fine")
    states = {
        "a": step("one", "fork", on={"fail": "a"}),
        "fork": {"choice": [{"path": "$.a", "eq": "never", "to": "done"}, {"else": "lost"}]},
        "done": END,
        "lost": {"end": "failed"},
    }

    assert "ends it as failed" in str(run(states).error)


def test_a_declared_error_ends_the_run_as_itself(serve: Serve, house: House) -> None:
    class OutOfStock(Exception):
        pass

    serve("one", OutOfStock("none left"))
    states = {"a": step("one", on={"fail": "lost"}), "done": END, "lost": {"end": "failed"}}
    declared = Saga.from_graph({**graph(states), "name": "f-declared"}, errors=[OutOfStock])
    plain = Saga.from_graph({**graph(states), "name": "f-undeclared"})
    house.add(declared, plain)
    handles = [declared.start(), plain.start()]
    house.drain()

    errors = [handle.error for handle in handles]

    assert [type(error) for error in errors] == [OutOfStock, StepFailed]


def test_a_loop_passes_a_state_again_under_a_key_of_its_own(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", {"more": True}, {"more": True}, {"more": False})
    states = {
        "a": step("one", "fork", args=["$.input"]),
        "fork": {"choice": [{"path": "$.a.more", "eq": True, "to": "pause"}, {"else": "done"}]},
        "pause": {"wait": 0, "on": {"ok": "a"}},
        "done": {**END, "output": "$.a"},
    }

    handle = run(states, 1)

    assert handle.wait(1) == {"more": False}
    assert [each.key for each in handle.steps()] == ["a", "pause", "a#2", "pause#2", "a#3"]
    assert len(calls) == 3


def test_steps_have_the_keys_of_their_states(serve: Serve, run: Runs) -> None:
    serve("shop.mails.tell")
    states = {"buyer": step("shop.mails.tell", "seller"), "seller": step("shop.mails.tell"), "done": END}

    assert [each.key for each in run(states).steps()] == ["buyer", "seller"]


def test_a_time_out_of_a_signal_takes_its_own_transition(house: House, run: Runs) -> None:
    ask = {"signal": "go", "timeout_s": 10, "on": {"signal": "done", "timeout": "late", "fail": "lost"}}
    handle = run({"ask": ask, "done": END, "late": {**END, "output": "late"}, "lost": {"end": "failed"}})

    house.advance(11)

    assert handle.wait(1) == "late"


def test_a_time_out_without_transition_ends_the_run(house: House, run: Runs) -> None:
    handle = run({"ask": {"signal": "go", "timeout_s": 10, "on": {"signal": "done"}}, "done": END})

    house.advance(11)

    assert isinstance(handle.error, SignalTimeout)


def test_a_signal_answered_with_an_error_takes_fail(house: House, run: Runs) -> None:
    ask = {"signal": "go", "on": {"signal": "done", "fail": "no"}}
    handle = run({"ask": ask, "done": END, "no": {**END, "output": "no"}})

    handle.signal("go", error=ValueError("not this one"))
    house.drain()

    assert handle.wait(1) == "no"


def test_a_signal_that_no_state_waits_for_is_refused(run: Runs) -> None:
    handle = run({"ask": {"signal": "go", "on": {"signal": "done"}}, "done": END})

    with pytest.raises(SignalNotExpected):
        handle.signal("stop")


def test_a_step_that_takes_too_long_takes_timeout_and_is_undone_first(
    house: House, serve: Serve, calls: Calls, run: Runs
) -> None:
    serve("undo")
    serve("tell", "late")
    serve("one", "never comes to this")
    slow = step("one", undo={"step": "undo", "args": ["$.input"]}, timeout_s=5, on={"timeout": "late", "fail": "lost"})
    saga = Saga.from_graph(
        {**graph({"a": slow, "late": step("tell"), "done": END, "lost": {"end": "failed"}}), "name": "f-slow"}
    )
    house.add(saga)
    handle = saga.start("o1")
    house.claim_next()

    house.advance(6)

    assert handle.wait(1) == "late"
    assert calls == [("undo", ["o1"]), ("tell", ["o1"])]


def test_a_cancel_ends_the_run_and_undoes_it_wherever_its_transition_leads(
    serve: Serve, calls: Calls, house: House, run: Runs
) -> None:
    serve("one", "charge-1")
    serve("undo")
    states = {
        "a": step("one", "ask", undo="undo"),
        "ask": {"signal": "go", "on": {"signal": "done", "cancel": "gone"}},
        "done": END,
        "gone": {"end": "failed"},
    }
    handle = run(states)

    handle.cancel()
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert calls[-1] == ("undo", ["charge-1"])


# -- choices -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ({"eq": 5}, 5, True),
        ({"eq": 5}, "5", False),
        ({"eq": 1}, True, False),
        ({"eq": None}, None, True),
        ({"eq": [1, 2]}, [1, 2], True),
        ({"eq": 0.1}, Decimal("0.1"), True),
        ({"gt": 100}, 101, True),
        ({"gt": 100}, 100, False),
        ({"gt": 1.5}, Decimal(2), True),
        ({"lt": "b"}, "a", True),
        ({"gt": 1, "lt": 3}, 2, True),
        ({"gt": 1, "lt": 3}, 3, False),
        ({"in": ["EUR", "CHF"]}, "EUR", True),
        ({"in": ["EUR", 1]}, True, False),
        ({"lt": "2026-05-01T00:00:00Z"}, datetime(2026, 4, 1, tzinfo=UTC), True),
        ({"eq": "$.input.limit"}, 7, True),
        ({"gt": "$.input.limit"}, 7, False),
    ],
)
def test_a_choice_compares(run: Runs, rule: dict[str, Any], value: Any, holds: bool) -> None:
    states = {
        "fork": {"choice": [{"path": "$.input.value", **rule, "to": "yes"}, {"else": "no"}]},
        "yes": {**END, "output": True},
        "no": {**END, "output": False},
    }

    assert run(states, {"value": value, "limit": 7}).wait(1) is holds


def test_the_first_rule_that_holds_is_followed(run: Runs) -> None:
    rules = [{"path": "$.input", "gt": n, "to": f"over{n}"} for n in (100, 10, 1)]
    states = {
        "fork": {"choice": [*rules, {"else": "few"}]},
        **{f"over{n}": {**END, "output": n} for n in (100, 10, 1)},
        "few": {**END, "output": 0},
    }

    assert [run(states, value).wait(1) for value in (500, 50, 5, 1)] == [100, 10, 1, 0]


@pytest.mark.parametrize("value", ["many", None, True])
def test_values_without_an_order_park_the_run(run: Runs, value: Any) -> None:
    states = {"fork": {"choice": [{"path": "$.input", "gt": 5, "to": "done"}, {"else": "done"}]}, "done": END}

    handle = run(states, value)

    assert handle.status == "suspended"
    assert "neither less nor greater" in str(handle.error)


# -- waits ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "waited",
    [
        "2026-01-01T01:00:00+00:00",
        datetime(2026, 1, 1, 1, tzinfo=UTC),
        timedelta(hours=1),
        3600,
        Decimal(3600),
    ],
)
def test_a_wait_takes_seconds_and_instants_from_a_path(house: House, run: Runs, waited: Any) -> None:
    house.now = datetime(2026, 1, 1, tzinfo=UTC)
    handle = run({"pause": {"wait": "$.input.at", "on": {"ok": "done"}}, "done": END}, {"at": waited})

    house.advance(3599)
    before = handle.status
    house.advance(1)

    assert (before, handle.refresh().status) == ("waiting", "completed")


@pytest.mark.parametrize("waited", ["soon", None, [], "2026-01-01T01:00:00", -1])
def test_a_wait_for_what_is_no_time_parks_the_run(run: Runs, waited: Any) -> None:
    handle = run({"pause": {"wait": "$.input.at", "on": {"ok": "done"}}, "done": END}, {"at": waited})

    assert handle.status == "suspended"


# -- policies ------------------------------------------------------------------------------------------------------
def test_retry_follows_the_names_of_errors(house: House, serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", TimeoutError("slow"), LookupError("gone"), "never")
    retry = {"max_attempts": 5, "delay_s": 0, "on": ["TimeoutError"]}

    handle = run({"a": step("one", retry=retry), "done": END})

    assert len(calls) == 2
    assert handle.status == "failed"


def test_retry_never_on_wins(serve: Serve, calls: Calls, run: Runs) -> None:
    serve("one", TimeoutError("slow"))

    run({"a": step("one", retry={"delay_s": 0, "never_on": ["OSError"]}), "done": END})

    assert len(calls) == 1


def test_a_step_and_its_undo_go_to_their_queues(serve: Serve, run: Runs) -> None:
    serve("one")
    undo = {"step": "undo", "args": [], "queue": "slow"}

    (record,) = run({"a": step("one", undo=undo, queue="money"), "done": END}).steps()

    assert '"options":{"queue":"money"}' in record.spec_text.replace(" ", "")
    assert '"options":{"queue":"slow"}' in record.spec_text.replace(" ", "")


def test_the_key_is_made_of_the_input(house: House) -> None:
    saga = Saga.from_graph({**graph({"done": END}), "name": "f-key"}, key="{input.order}-{input.line}")

    handle = saga.start({"order": "o1", "line": 2})

    assert handle.key == "o1-2"
    assert saga.find(key="o1-2").id == handle.id


def test_on_failure_suspend_parks_the_run(serve: Serve, run: Runs) -> None:
    serve("one", LookupError("none left"))

    assert run({"a": step("one"), "done": END}, on_failure="suspend").status == "suspended"


def test_only_a_graph_that_tells_its_error_records_it(serve: Serve, run: Runs) -> None:
    serve("one", LookupError("none left"))

    kinds = [each.kind for each in run({"a": step("one", on={"fail": "done"}), "done": END}).steps()]

    assert kinds == [StepKind.STEP]


def test_a_retried_run_goes_on_from_the_state_that_failed(serve: Serve, calls: Calls, house: House, run: Runs) -> None:
    serve("one", "charge-1")
    serve("two", LookupError("none left"), "shipped")
    serve("tell")
    serve("undo")
    states = {
        "a": step("one", "b"),
        "b": step("two", on={"fail": "c"}),
        "c": step("tell", "lost", undo="undo"),
        "done": END,
        "lost": {"end": "failed"},
    }
    handle = run(states)
    before = handle.status

    handle.retry()
    house.drain()

    assert before == "failed"
    assert handle.wait(1) == "shipped"
    assert [name for name, _ in calls] == ["one", "two", "tell", "undo", "two"]


def test_a_run_can_be_retried_from_a_state_by_its_name(serve: Serve, calls: Calls, house: House, run: Runs) -> None:
    serve("one", 1, 2)
    serve("two", LookupError("none left"), "shipped")
    handle = run({"first": step("one", "second"), "second": step("two"), "done": END})

    handle.retry(from_step="first")
    house.drain()

    assert [name for name, _ in calls] == ["one", "two", "one", "two"]
    assert handle.wait(1) == "shipped"


def test_a_graph_that_a_module_makes_a_saga_of_need_not_be_bound() -> None:
    module: dict[str, object] = {"__name__": "a_module_of_graphs"}
    graph = {"name": "unbound", "version": 1, "start": "a", "states": {"a": {"end": True}}}

    exec(compile(f"from celery_saga import Saga\nSaga.from_graph({graph!r})", "a_module_of_graphs", "exec"), module)
    gc.collect()

    assert declared.declared_as("unbound", 1) is not None
