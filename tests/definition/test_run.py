"""A body's calls: what they order, what they return from the record, what they refuse."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import chain, group, signature

from celery_saga import Retry, Run, Signal, saga, step
from celery_saga.core.decision import Mismatch, Unreadable
from celery_saga.core.failure import Failure
from celery_saga.core.orders import StepSpec
from celery_saga.core.records import StepKind
from celery_saga.core.status import StepStatus
from celery_saga.errors import (
    DefinitionError,
    DuplicateStepError,
    InvalidPayload,
    PayloadTooLarge,
    SignalFailed,
    SignalTimeout,
    StepFailed,
    StepLost,
)
from tests.definition.passes import NOW, Passes
from tests.definition.tasks import (
    Colour,
    Declined,
    Receipt,
    app,
    charge,
    colours,
    expected,
    receipt,
    refund,
    refund_any,
    refund_default,
)


def bug_of(body: Any, *args: Any) -> Failure:
    """What the body raised in its first pass, which must be a bug that ordered nothing."""
    passes = Passes(saga(body), *args)
    decided = passes.decide()
    assert decided.orders == ()
    raised = passes.raised()
    assert not raised.declared
    return raised.error


def spec_of(body: Any) -> StepSpec:
    return StepSpec.from_text(Passes(saga(body)).order()[0].spec_text)


# -- steps --------------------------------------------------------------------------------------------------------
def test_a_step_is_ordered_once_and_returned_from_the_record() -> None:
    @saga
    def body(run: Run) -> str:
        return run.step(charge.si(run.idempotency_key("charge"), cents=5)) + "!"

    passes = Passes(body)
    (order,) = passes.order()

    assert (order.kind, order.key, order.task) == (StepKind.STEP, "charge", "shop.charge")
    assert json.loads(order.args_text) == [["run-1:1:charge"], {"cents": 5}]
    assert passes.order() == []
    passes.done("charge", "ch_1")
    assert passes.result() == "ch_1!"


def test_repeats_get_numbers_and_each_its_own_idempotency_key() -> None:
    @saga
    def body(run: Run) -> list[str]:
        return [run.step(charge.si(run.idempotency_key("charge"))) for _ in range(2)]

    passes = Passes(body)
    passes.order()
    passes.done("charge", "a")
    (second,) = passes.order()

    assert second.key == "charge#2"
    assert json.loads(second.args_text)[0] == ["run-1:1:charge#2"]


def test_an_explicit_name_twice_is_a_bug() -> None:
    @saga
    def body(run: Run) -> None:
        run.step(charge.si("a"), name="pay")
        run.step(charge.si("b"), name="pay")

    passes = Passes(body)
    passes.order()
    passes.done("pay", "a")

    assert passes.raised().error.code == DuplicateStepError.code
    assert not passes.raised().declared


def test_other_arguments_in_a_replay_are_a_mismatch() -> None:
    given = ["a"]

    @saga
    def body(run: Run) -> str:
        return run.step(charge.si(given[0]))

    passes = Passes(body)
    passes.order()
    given[0] = "b"

    assert isinstance(passes.decide().end, Mismatch)


def test_policies_and_options_travel_in_the_spec() -> None:
    def body(run: Run) -> None:
        sig = charge.si("a").set(queue="pay", time_limit=30, soft_time_limit=20)
        undo = refund.si("a").set(queue="undo")
        run.step(sig, undo=undo, retry=Retry(2), undo_retry=Retry(7), timeout=timedelta(minutes=1), dispatch="auto")

    spec = spec_of(body)

    assert spec.options == {"queue": "pay", "time_limit": 30, "soft_time_limit": 20}
    assert (spec.timeout_s, spec.dispatch, spec.remote) == (60.0, "auto", False)
    assert spec.retry is not None and spec.retry["max_attempts"] == 2
    assert spec.undo is not None and spec.undo.retry is not None and spec.undo.retry["max_attempts"] == 7
    assert (spec.undo.call.task, spec.undo.call.immutable) == ("shop.refund", True)
    assert (spec.undo.call.args_text, spec.undo.call.options) == ('[["a"],{}]', {"queue": "undo"})


def test_options_of_step_are_kept_by_clones_and_canvases_and_those_of_the_call_go_over_them() -> None:
    made = step(charge.si("a"), undo=refund, timeout=5, name="pay")

    def body(run: Run) -> None:
        run.step(chain(made, charge.si("b")).tasks[0].clone(), timeout=7)

    spec = spec_of(body)

    assert spec.timeout_s == 7.0
    assert spec.undo is not None
    assert spec.options == {}


def test_a_canvas_that_carries_step_options_still_becomes_a_message() -> None:
    from kombu.utils.json import dumps, loads

    text = dumps(chain(step(charge.si("a"), undo=refund), charge.si("b")))

    assert loads(text)["kwargs"]["tasks"][0]["options"] == {"celery_saga": None}


def test_step_leaves_the_signature_that_it_was_given_as_it_is() -> None:
    sig = charge.si("a")

    step(sig, timeout=5)

    assert sig.options == {}


@pytest.mark.parametrize(
    ("undo", "unknown"),
    [
        (refund, "park"),
        (refund.s(), "park"),
        (refund.si("ch"), "call"),
        (refund_any, "call"),
        (refund_any.s(), "call"),
        (refund_default, "call"),
        (signature("shop.elsewhere", app=app), "park"),
    ],
)
def test_an_undo_is_called_without_a_result_only_where_it_can_be(undo: Any, unknown: str) -> None:
    def body(run: Run) -> None:
        run.step(charge.si("a"), undo=undo)

    spec = spec_of(body)

    assert spec.undo is not None and spec.undo.unknown == unknown


def test_undo_unknown_as_given_wins() -> None:
    def body(run: Run) -> None:
        run.step(charge.si("a"), undo=refund, undo_unknown="skip")

    spec = spec_of(body)

    assert spec.undo is not None and spec.undo.unknown == "skip"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (charge, r"write charge\.si\(\.\.\.\)"),
        (refund.run, "make it a Celery task"),
        ("shop.charge", "got str"),
        (group(charge.si("a"), charge.si("b")), "got a group"),
        (chain(charge.si("a"), charge.si("b")), "got a chain"),
        (charge.si("a").set(countdown=5), "'countdown'.*run.sleep"),
        (charge.si("a").set(link=refund.s()), "'link'"),
        (charge.si("a").set(expires=5), "'expires'"),
        (charge.si("a").set(task_id="x"), "'task_id'"),
        (charge.si("a").set(shadow="x"), "'shadow'.*allowed are"),
        (charge.si("a").set(time_limit=5, soft_time_limit=5), "must be less than time_limit"),
        (charge.si("a").set(queue=7), "'queue' must be its name"),
    ],
)
def test_what_is_no_step_is_refused_saying_what_to_write(given: Any, says: str) -> None:
    def body(run: Run) -> None:
        run.step(given)

    error = bug_of(body)

    assert error.code == DefinitionError.code
    with pytest.raises(DefinitionError, match=says):
        raise DefinitionError(error.message)
    with pytest.raises(DefinitionError, match=says):
        step(given)


def test_a_result_given_as_step_is_refused_naming_delay() -> None:
    result = charge.AsyncResult("some-id")

    with pytest.raises(DefinitionError, match=r"instead of \.delay"):
        step(result)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"undo": print}, "Only a task"),
        ({"undo": "refund"}, "takes a Celery task"),
        ({"undo": chain(refund.si("a"), refund.si("b"))}, "got a chain"),
        ({"undo": refund.si("a").set(countdown=5)}, "countdown"),
        ({"undo_retry": Retry(2)}, "undo_retry= without undo="),
        ({"undo_unknown": "skip"}, "undo_unknown= without undo="),
        ({"undo": refund, "undo_unknown": "maybe"}, "'call', 'park', 'skip'"),
        ({"retry": 3}, "takes a Retry"),
        ({"timeout": 0}, "longer than 0 s"),
        ({"timeout": -1}, "at least 0 s"),
        ({"timeout": float("nan")}, "finite"),
        ({"dispatch": "later"}, "'broker', 'inline', 'auto'"),
        ({"remote": True}, "remote=True needs timeout="),
        ({"name": ""}, "name="),
        ({"type": object()}, "no stored value can become"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        step(charge.si("a"), **options)


def test_retry_of_no_attempt_is_refused() -> None:
    with pytest.raises(DefinitionError, match="at least 1"):
        Retry(max_attempts=0)


def test_an_argument_that_cannot_be_stored_is_a_bug_that_names_its_path() -> None:
    def body(run: Run) -> None:
        run.step(charge.si("a", cents={"price": float("nan")}))  # type: ignore[arg-type]

    error = bug_of(body)

    assert error.code == InvalidPayload.code
    assert "shop.charge: kwargs.cents.price" in error.message or "kwargs['cents']" in error.message


def test_arguments_over_the_limit_are_refused() -> None:
    @saga
    def body(run: Run) -> None:
        run.step(charge.si("a" * 500))

    passes = Passes(body, max_payload_bytes=100)

    assert passes.decide().orders == ()
    assert passes.raised().error.code == PayloadTooLarge.code


@pytest.mark.parametrize(
    ("sig", "stored", "read"),
    [
        (receipt.si(), Receipt("ch"), Receipt("ch")),
        (colours.si(), [Colour.RED], [Colour.RED]),
        (charge.si("a"), {"plain": 1}, {"plain": 1}),
    ],
)
def test_results_come_back_as_the_task_annotates_them_where_that_is_needed(sig: Any, stored: Any, read: Any) -> None:
    seen = []

    @saga
    def body(run: Run) -> None:
        seen.append(run.step(sig))

    passes = Passes(body)
    (order,) = passes.order()
    passes.done(order.key, stored)
    passes.decide()

    assert seen == [read]


def test_type_goes_over_the_annotation() -> None:
    seen = []

    @saga
    def body(run: Run) -> None:
        seen.append(run.step(charge.si("a"), type=Receipt))

    passes = Passes(body)
    passes.order()
    passes.done("charge", {"charge_id": "ch"})
    passes.decide()

    assert seen == [Receipt("ch")]


# -- errors -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "step_options", "task", "seen"),
    [
        ({}, {}, charge, StepFailed),
        ({"errors": [Declined]}, {}, charge, Declined),
        ({}, {"retry": Retry(2, on=[Declined])}, charge, Declined),
        ({}, {"retry": Retry(2, never_on=[Declined])}, charge, Declined),
        ({}, {}, expected, Declined),
    ],
)
def test_the_body_sees_the_class_where_somebody_names_it(options: Any, step_options: Any, task: Any, seen: Any) -> None:
    caught: list[BaseException] = []

    @saga(**options)
    def body(run: Run) -> None:
        try:
            run.step(task.si("a") if task is charge else task.si(), **step_options)
        except Exception as error:
            caught.append(error)
            raise

    passes = Passes(body)
    (order,) = passes.order()
    passes.fail(order.key, Declined("no money"))
    raised = passes.raised()

    assert type(caught[0]) is seen
    assert "no money" in str(caught[0])
    assert (raised.declared, raised.step) == (True, order.key)


def test_an_undeclared_error_says_what_to_add_and_keeps_what_it_was() -> None:
    caught: list[StepFailed] = []

    @saga
    def body(run: Run) -> None:
        try:
            run.step(charge.si("a"))
        except StepFailed as error:
            caught.append(error)

    passes = Passes(body)
    passes.order()
    passes.fail("charge", Declined("no money"))
    passes.decide()

    (error,) = caught
    assert (error.step, error.attempts, error.is_a(Declined), error.message) == ("charge", 3, True, "no money")
    assert "add Declined to errors=" in str(error)


def test_a_builtin_error_and_a_lost_step_are_themselves() -> None:
    caught: list[BaseException] = []

    @saga
    def body(run: Run) -> None:
        for cents in (1, 2):
            try:
                run.step(charge.si("a", cents))
            except (LookupError, StepLost) as error:
                caught.append(error)

    passes = Passes(body)
    passes.order()
    passes.fail("charge", KeyError("x"))
    passes.order()
    passes.fail("charge#2", StepLost("gone"), StepStatus.LOST)
    passes.decide()

    assert [type(each) for each in caught[-2:]] == [KeyError, StepLost]
    assert caught[-1].step == "charge#2"  # type: ignore[attr-defined]


def test_an_error_of_the_body_itself_is_a_bug_unless_it_is_declared() -> None:
    @saga
    def undeclared(run: Run) -> None:
        raise Declined

    @saga(errors=[Declined])
    def declared(run: Run) -> None:
        raise Declined

    assert not Passes(undeclared).raised().declared
    assert Passes(declared).raised().declared


# -- waiting ------------------------------------------------------------------------------------------------------
APPROVAL = Signal("approval", Receipt)


def test_a_wait_is_ordered_with_its_time_out_and_returns_the_typed_value() -> None:
    seen = []

    @saga(signals=[APPROVAL])
    def body(run: Run) -> None:
        seen.append(run.wait_signal("approval", timeout=60))

    passes = Passes(body)
    (order,) = passes.order()
    passes.done("approval", Receipt("ok"))
    passes.decide()

    assert (order.kind, order.task, order.delay_s) == (StepKind.SIGNAL, "approval", 60.0)
    assert seen == [Receipt("ok")]


def test_a_default_comes_back_as_the_very_object_and_may_be_of_another_type() -> None:
    seen = []

    @saga
    def body(run: Run) -> None:
        seen.append(run.wait_signal(APPROVAL, timeout=60, default=None))

    passes = Passes(body)
    (order,) = passes.order()
    assert StepSpec.from_text(order.spec_text).has_default
    late = passes.snapshot.steps["approval"].due_at
    passes._settle("approval", status=StepStatus.DONE, result_text="null", due_at=late and NOW)
    passes.decide()

    assert seen == [None]


@pytest.mark.parametrize(
    ("error", "seen"),
    [(Declined("no"), SignalFailed), (ValueError("no"), SignalFailed), (SignalTimeout("late"), SignalTimeout)],
)
def test_a_wait_that_failed_raises_what_the_sender_gave_or_signal_failed(error: Exception, seen: Any) -> None:
    caught: list[BaseException] = []

    @saga
    def body(run: Run) -> None:
        try:
            run.wait_signal("approval", timeout=60)
        except Exception as exc:
            caught.append(exc)
            raise

    passes = Passes(body)
    passes.order()
    passes.fail("approval", error)

    assert passes.raised().declared
    assert type(caught[0]) is seen
    assert getattr(caught[0], "signal", "approval") == "approval"


@pytest.mark.parametrize(
    ("wait", "says"),
    [
        (lambda run: run.wait_signal("rejection"), "does not declare the signal 'rejection'"),
        (lambda run: run.wait_signal("approval", timeout=-1), "at least 0 s"),
        (lambda run: run.wait_signal("approval", timeout=0), "longer than 0 s"),
        (lambda run: run.wait_signal("approval", default=1), "without timeout="),
        (lambda run: run.wait_signal(APPROVAL, type=int), "brings its type"),
        (lambda run: run.wait_signal(7), "takes a Signal or its name"),
        (lambda run: run.sleep(-1), "at least 0 s"),
        (lambda run: run.sleep(float("inf")), "finite"),
        (lambda run: run.sleep("1 day"), "seconds or a timedelta"),
        (lambda run: run.sleep_until(datetime(2026, 1, 1)), "aware datetime"),  # noqa: DTZ001
        (lambda run: run.sleep(1, name="a/b"), "step name"),
        (lambda run: run.on_undo(refund), r"write refund\.si"),
        (lambda run: run.record("x", run.now), r"in the function of run\.record\('x'\)"),
    ],
)
def test_nonsense_is_refused_at_once(wait: Any, says: str) -> None:
    @saga(signals=[APPROVAL])
    def body(run: Run) -> None:
        wait(run)

    passes = Passes(body)

    with pytest.raises(DefinitionError, match=says):
        raise DefinitionError(passes.raised().error.message)
    assert passes.decide().orders == ()


def test_sleeps_are_timers_for_a_duration_or_until_an_instant_in_utc() -> None:
    @saga
    def body(run: Run) -> None:
        run.sleep(timedelta(hours=1))
        run.sleep_until(datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))), name="may")

    passes = Passes(body)
    (first,) = passes.order()
    passes.done("sleep")
    (second,) = passes.order()

    assert (first.kind, first.key, first.delay_s, first.at) == (StepKind.TIMER, "sleep", 3600.0, None)
    assert (second.key, second.delay_s, second.at) == ("may", None, datetime(2026, 5, 1, 10, tzinfo=UTC))


# -- values -------------------------------------------------------------------------------------------------------
def test_recorded_values_are_computed_once_and_come_back_with_their_type() -> None:
    calls: list[int] = []
    seen: list[Any] = []

    def flag() -> frozenset[int]:
        calls.append(1)
        return frozenset({1})

    @saga
    def body(run: Run) -> None:
        seen.append((run.record("flag", flag), run.now()))
        run.step(charge.si("a"))

    passes = Passes(body)
    passes.order()
    passes.order()

    assert calls == [1]
    assert seen == [(frozenset({1}), NOW)] * 2


def test_uuid_and_random_are_the_same_in_each_replay_and_differ_from_call_to_call() -> None:
    seen: list[Any] = []

    @saga
    def body(run: Run) -> None:
        seen.append((run.uuid(), run.uuid(), run.random(), run.random()))
        run.step(charge.si("a"))

    passes = Passes(body)
    passes.order()
    passes.order()

    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 4
    assert all(0 <= number < 1 for number in seen[0][2:])


def test_a_value_that_cannot_be_recorded_is_a_bug_and_records_nothing() -> None:
    def body(run: Run) -> None:
        run.record("x", object)

    assert bug_of(body).code == InvalidPayload.code


def test_on_undo_registers_an_undo_that_gets_no_result() -> None:
    @saga
    def body(run: Run) -> None:
        run.on_undo(refund.s("ch"), name="back")

    order = Passes(body).decide().orders[0]
    undo = StepSpec.from_text(order.spec_text).undo

    assert (order.kind, order.key) == (StepKind.ON_UNDO, "back")
    assert undo is not None
    assert (undo.call.task, undo.call.args_text, undo.call.immutable) == ("shop.refund", '[["ch"],{}]', True)


def test_the_log_speaks_once_however_often_the_body_is_replayed(caplog: pytest.LogCaptureFixture) -> None:
    @saga
    def body(run: Run) -> None:
        run.log.info("begin")
        run.step(charge.si("a"))
        run.log.info("charged")

    passes = Passes(body)
    with caplog.at_level(logging.INFO, logger="celery_saga.saga.body"):
        passes.order()
        passes.order()
        passes.done("charge", "ch")
        passes.decide()

    assert [record.getMessage() for record in caplog.records] == ["begin", "charged"]
    assert caplog.records[0].run_id == "run-1"  # type: ignore[attr-defined]


# -- the pass as a whole ------------------------------------------------------------------------------------------
def test_a_saga_that_is_not_known_decides_nothing() -> None:
    @saga
    def body(run: Run) -> None: ...

    passes = Passes(body)
    other = passes.snapshot.with_run(version=2)

    assert passes.registry.decide(other, NOW) is None


@pytest.mark.parametrize("text", ["{broken", '{"cents":"many"}', '{"colour":"red"}'])
def test_input_that_cannot_be_read_is_no_bug_of_the_body(text: str) -> None:
    @saga
    def body(run: Run, cents: int) -> None: ...

    passes = Passes(body, 5)
    passes.snapshot = passes.snapshot.with_run(input_text=text)

    assert isinstance(passes.decide().end, Unreadable)


def test_a_result_that_cannot_be_stored_or_does_not_fit_is_a_bug() -> None:
    def unstorable(run: Run) -> Any:
        return object()

    def unfit(run: Run) -> int:
        return "many"  # type: ignore[return-value]

    assert bug_of(unstorable).code == InvalidPayload.code
    assert "the result of saga 'unfit'" in bug_of(unfit).message


def test_a_body_that_swallows_its_suspension_is_a_bug() -> None:
    @saga
    def body(run: Run) -> Any:
        try:
            run.step(charge.si("a"))
        except BaseException:  # noqa: BLE001
            return object()

    raised = Passes(body).raised()

    assert not raised.declared
    assert "swallowed its suspension" in raised.error.message


def test_a_start_inside_a_body_is_refused_naming_the_way_out() -> None:
    @saga
    def other(run: Run) -> None: ...

    def body(run: Run) -> None:
        other.start()

    error = bug_of(body)

    assert error.code == DefinitionError.code
    assert "other.start() was called in the body" in error.message
