"""What is told of runs and steps, held against the state that Celery's own event state makes of it."""

from __future__ import annotations

import ast
import itertools
import random
import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.events.state import State

from celery_saga.core import codec, failure
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.status import RUN_TABLE, RunEvent, RunStatus, StepStatus
from celery_saga.runtime.literals import MOST_BYTES, literal
from celery_saga.runtime.showing.masked import masked
from celery_saga.runtime.showing.told import begins_again, may_be_outranked, of_run, of_step, sent_of_run

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RUN = RunRecord("r1", "order", 1, "o1", RunStatus.QUEUED, NOW, NOW, started_at=NOW + timedelta(seconds=1))
SHOWN = {
    RunStatus.QUEUED: "RETRY",
    RunStatus.RUNNING: "STARTED",
    RunStatus.WAITING: "WAITING",
    RunStatus.COMPENSATING: "COMPENSATING",
    RunStatus.SUSPENDED: "SUSPENDED",
    RunStatus.COMPLETED: "SUCCESS",
    RunStatus.FAILED: "FAILURE",
    RunStatus.CANCELLED: "REVOKED",
    RunStatus.COMPENSATION_FAILED: "FAILURE",
}


def as_of(status: RunStatus, **more: Any) -> RunRecord:
    ended_at = NOW + timedelta(seconds=3.5) if status.is_end else None
    return replace(RUN, status=status, ended_at=ended_at, **more)


def feed(state: State, told: list[dict[str, Any]]) -> None:
    """As an event receiver hands them on."""
    for each in told:
        state.event({"clock": state.event_count + 1, "local_received": each["timestamp"], **each})


@pytest.mark.parametrize("status", list(RunStatus))
def test_each_status_is_shown_to_whoever_sees_the_run_for_the_first_time(status: RunStatus) -> None:
    state = State()

    feed(state, of_run(as_of(status), "w@h", again=False))

    expected = "PENDING" if status is RunStatus.QUEUED else SHOWN[status]
    assert (state.tasks["r1"].state, state.tasks["r1"].name) == (expected, "saga.order")


@pytest.mark.parametrize(("was", "now"), sorted({(was, now) for (was, _), now in RUN_TABLE.items() if was != now}))
def test_each_change_of_status_is_shown(was: RunStatus, now: RunStatus) -> None:
    state = State()
    feed(state, of_run(as_of(was), "w@h", again=False))

    feed(state, of_run(as_of(now), "w@h", again=begins_again(was, now)))

    assert state.tasks["r1"].state == SHOWN[now]


def reachable() -> set[tuple[RunStatus, RunStatus]]:
    """What a run may have been, and what it may be now in the same generation."""
    steps = {(was, now) for (was, event), now in RUN_TABLE.items() if event is not RunEvent.RESTARTED}
    while more := {(a, d) for (a, b), (c, d) in itertools.product(steps, steps) if b is c} - steps:
        steps |= more
    return {(was, now) for was, now in steps if was is not now and (was, now) != _AFTER_SUCCESS}


_AFTER_SUCCESS = (RunStatus.COMPLETED, RunStatus.FAILED)  # the table has it; what undoes a completed run cancels it


@pytest.mark.parametrize(("shown", "now"), sorted(reachable()))
def test_what_is_told_again_is_shown_whatever_was_shown(shown: RunStatus, now: RunStatus) -> None:
    state = State()
    feed(state, of_run(as_of(shown), "w@h", again=False))

    run = as_of(now)
    feed(state, of_run(run, "w@h", again=may_be_outranked(run)))

    assert state.tasks["r1"].state == SHOWN[now]


@pytest.mark.parametrize(("shown", "now"), list(itertools.product(RunStatus, RunStatus)))
def test_a_later_generation_is_shown_whatever_was_shown_of_the_first(shown: RunStatus, now: RunStatus) -> None:
    state = State()
    feed(state, of_run(as_of(shown), "w@h", again=False))

    run = as_of(now, generation=2)
    feed(state, of_run(run, "w@h", again=may_be_outranked(run)))

    assert state.tasks["r1"].state == SHOWN[now]


def test_a_failed_run_that_is_told_again_was_not_retried() -> None:
    state = State()
    run = as_of(RunStatus.FAILED)

    feed(state, of_run(run, "w@h", again=may_be_outranked(run)))

    assert state.tasks["r1"].retried is None


def test_events_that_come_twice_or_behind_their_place_leave_an_end_as_it_is() -> None:
    told = [sent_of_run(RUN, "c"), *of_run(as_of(RunStatus.RUNNING), "w@h", again=False)]
    told += of_run(as_of(RunStatus.WAITING), "w@h", again=False) + of_run(
        as_of(RunStatus.COMPLETED), "w@h", again=False
    )
    for seed in range(20):
        state = State()
        feed(state, random.Random(seed).sample(told * 2, len(told) * 2))
        assert state.tasks["r1"].state == "SUCCESS"
        assert state.tasks["r1"].runtime == 2.5


def test_only_workers_are_made_workers() -> None:
    state = State()

    feed(state, [sent_of_run(RUN, "client@web")])
    assert not state.workers

    feed(state, of_run(as_of(RunStatus.COMPLETED), "w@h", again=False))
    assert list(state.workers) == ["w@h"]


def test_no_message_of_an_error_and_no_payload_is_told() -> None:
    error = failure.to_text(failure.capture(ValueError("secret")))
    run = as_of(RunStatus.FAILED, error_text=error, error_step="ship", input_text=codec.encode({"a": "secret"}))

    told = of_run(run, "w@h", again=False)

    assert "secret" not in repr(told)
    line = ast.literal_eval(told[-1]["exception"])
    assert line == {"status": "failed", "error": "builtins.ValueError", "step": "ship"}
    assert masked({"exception": "Bad('secret')", "result": "'secret'", "runtime": 1}) == {
        "exception": "{'error': 'Bad'}",
        "result": "{'status': 'done'}",
        "runtime": 1,
    }


def test_of_a_traceback_its_frames_are_told_and_no_text_of_an_error() -> None:
    def fails() -> None:
        try:
            raise ValueError("secret\n    secret again\n  File secret")
        except ValueError as error:
            raise KeyError("secret") from error

    try:
        fails()
    except KeyError:
        told = masked({"traceback": traceback.format_exc()})["traceback"]

    assert told.count("Traceback (") == 2
    assert told.count("in fails") == 2
    lines = [line for line in told.splitlines() if "secret" in line]
    assert [line.strip() for line in lines] == [
        'raise ValueError("secret\\n    secret again\\n  File secret")',
        'raise KeyError("secret") from error',
    ]  # as they stand in the source
    assert masked({"traceback": "secret"}) == {"traceback": None}


def test_payload_is_told_where_it_is_given_and_stays_a_literal() -> None:
    payload = {"input": {"order": "o" * 5000}, "result": ["é" * 2000]}

    told = of_run(as_of(RunStatus.COMPLETED), "w@h", again=False, payload=payload)

    kwargs = ast.literal_eval(told[0]["kwargs"])
    assert kwargs["saga_run"] == "r1"
    assert "oooo" in kwargs["input"]
    assert "éé" in ast.literal_eval(told[-1]["result"])["result"]
    assert all(
        len(str(each[name]).encode()) <= MOST_BYTES for each in told for name in ("kwargs", "result") if name in each
    )


@pytest.mark.parametrize("text", ["x" * 900, "\U0001f980" * 255, "\x81" * 255, "'\"" * 120, "é" * 999])
def test_a_literal_stays_short_and_readable(text: str) -> None:
    made = literal({"saga_run": "0190c3", "key": text, "step": text, "version": 10**30})

    assert len(made.encode()) <= MOST_BYTES
    read = ast.literal_eval(made)
    assert read["saga_run"] == "0190c3"
    assert read["key"][:20] == text[:20]


def test_steps_are_told_with_their_run_and_what_is_no_task_is_not() -> None:
    step = StepRecord("r1", 1, "ship", StepKind.STEP, StepStatus.DONE, NOW, task="shop.ship", attempt=2, sends=1)
    step = replace(step, started_at=NOW, ended_at=NOW + timedelta(seconds=2))
    state = State()

    feed(state, of_run(as_of(RunStatus.COMPLETED), "w@h", again=False))
    feed(state, of_step(step, "w@h"))
    feed(state, of_step(replace(step, kind=StepKind.TIMER, key="sleep"), "w@h"))
    feed(state, of_step(replace(step, key="held", status=StepStatus.HELD, sends=0, attempt=0), "w@h"))

    (child,) = state.tasks["r1"].children
    assert (child.name, child.state, child.runtime) == ("shop.ship", "SUCCESS", 2.0)
    assert ast.literal_eval(child.kwargs) == {"saga_run": "r1", "step": "ship"}
    assert len(state.tasks) == 2


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (StepStatus.RUNNING, "STARTED"),
        (StepStatus.SCHEDULED, "RETRY"),
        (StepStatus.DONE, "SUCCESS"),
        (StepStatus.FAILED, "FAILURE"),
        (StepStatus.LOST, "FAILURE"),
        (StepStatus.CANCELLED, "REVOKED"),
    ],
)
def test_each_status_of_a_step_is_shown(status: StepStatus, shown: str) -> None:
    step = StepRecord("r1", 1, "ship", StepKind.STEP, status, NOW, task="shop.ship", attempt=1, sends=1, started_at=NOW)
    state = State()

    feed(state, of_step(step, "w@h"))

    ((_, task),) = state.tasks.items()
    assert task.state == shown
