"""Tasks hung on the signals of a run: executed once when all have come, without taking any from the body."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_saga import (
    DefinitionError,
    IllegalTransition,
    Retry,
    Run,
    RunNotFound,
    Saga,
    Signal,
    SignalNotExpected,
    saga,
    step,
)
from celery_saga.core.records import Action
from celery_saga.runtime.chords import SignalChord
from tests.scenarios.house import House


class Told:
    """A task that notes what it is called with."""

    def __init__(self, house: House, *, fails: int = 0) -> None:
        self.calls: list[Any] = []
        self.fails = fails

        @house.task("tell")
        def tell(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((*args, kwargs) if kwargs else args)
            if len(self.calls) <= self.fails:
                raise ValueError("not yet")
            return len(self.calls)

        self.task: Any = tell


@pytest.fixture
def told(house: House) -> Told:
    return Told(house)


def _waits(house: House, *names: str, **options: Any) -> Saga[[], Any]:
    @saga(name="waits", **options)
    def waits(run: Run) -> Any:
        return [run.wait_signal(name) for name in names]

    house.add(waits)
    return waits


def _row(house: House, run_id: str, key: str = "!chord/1") -> Any:
    return [x for x in house.store.steps(run_id, all_generations=True) if x.key == key][-1]


def test_it_fires_once_with_the_values_in_header_order_and_takes_nothing(house: House, told: Told) -> None:
    handle = _waits(house, "a", "b").start()
    house.drain()

    key = SignalChord(house, handle.id, ["b", "a"])(told.task.s("more", level=1))
    handle.signal("a", {"n": 1})
    house.drain()
    before = list(told.calls)
    handle.signal("b", 2)
    handle.signal("a", 3)
    house.drain()

    assert before == []
    assert told.calls == [([2, {"n": 1}], "more", {"level": 1})]
    assert handle.wait(1) == [{"n": 1}, 2]
    row = _row(house, handle.id, key)
    assert (row.kind.value, row.status.value, row.result) == ("chord", "done", 1)
    assert [x.key for x in handle.steps()] == ["a", key, "b"]


def test_signals_that_came_before_count_taken_or_not(house: House, told: Told) -> None:
    handle = _waits(house, "a", "c").start()
    handle.signal("b", "B")
    handle.signal("a", "A")
    house.drain()

    SignalChord(house, handle.id, ["a", Signal("b")])(told.task.s())
    house.drain()
    handle.signal("c", 1)
    house.drain()

    assert told.calls == [(["A", "B"],)]
    assert handle.wait(1) == ["A", 1]


def test_a_signal_that_is_taken_while_it_is_hung_counts(
    house: House, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = _waits(house, "a", "b").start()
    house.drain()
    read = house.store.signals
    moments = [lambda: handle.signal("a", "A")]

    def meanwhile(run_id: str) -> Any:
        there = read(run_id)
        if moments:
            moments.pop()()  # sent and taken after the reading, before the lock
        return there

    monkeypatch.setattr(house.store, "signals", meanwhile)
    SignalChord(house, handle.id, ["a"])(told.task.s())
    house.drain()

    assert house.store.signals(handle.id)[0].taken_by == "a"
    assert told.calls == [(["A"],)]


def test_an_immutable_signature_gets_its_own_arguments_alone(house: House, told: Told) -> None:
    handle = _waits(house, "a").start()
    house.drain()

    SignalChord(house, handle.id, ["a"])(told.task.si("only"))
    handle.signal("a", 1)
    house.drain()

    assert told.calls == [("only",)]


def test_an_error_is_no_value_and_is_not_counted(house: House, told: Told) -> None:
    @saga(name="patient")
    def patient(run: Run) -> Any:
        try:
            run.wait_signal("a")
        except Exception:  # noqa: BLE001 - whatever it is
            return run.wait_signal("a")

    house.add(patient)
    handle = patient.start()
    house.drain()
    SignalChord(house, handle.id, ["a"])(told.task.s())
    handle.signal("a", error=ValueError("no"))
    house.drain()
    before = list(told.calls)
    handle.signal("a", "yes")
    house.drain()

    assert before == []
    assert told.calls == [(["yes"],)]
    assert handle.wait(1) == "yes"


def test_two_chords_of_a_run_are_told_apart(house: House, told: Told) -> None:
    handle = _waits(house, "a", "b").start()
    house.drain()
    keys = [SignalChord(house, handle.id, [name])(told.task.si(name)) for name in ("a", "b")]

    handle.signal("b", 1)
    handle.signal("a", 1)
    house.drain()

    assert keys == ["!chord/1", "!chord/2"]
    assert sorted(told.calls) == [("a",), ("b",)]
    assert handle.wait(1) == [1, 1]


def test_it_is_tried_again_as_its_policy_says_and_its_failure_fails_nothing(house: House) -> None:
    told = Told(house, fails=99)
    handle = _waits(house, "a", "b").start()
    house.drain()
    retry = Retry(max_attempts=2, delay=5, jitter=False)
    key = SignalChord(house, handle.id, ["a"])(step(told.task.s(), retry=retry))
    handle.signal("a", 1)
    house.drain()
    house.advance(6)
    handle.signal("b", 2)
    house.drain()

    assert len(told.calls) == 2
    assert handle.wait(1) == [1, 2]
    assert _row(house, handle.id, key).status.value == "failed"
    assert house.rows(handle.id, Action.FAIL) == 2


def test_the_end_of_the_run_cancels_what_is_not_complete(house: House, told: Told) -> None:
    handle = _waits(house, "a").start()
    house.drain()
    SignalChord(house, handle.id, ["a", "never"])(told.task.s())
    handle.signal("a", 1)
    house.drain()

    assert handle.wait(1) == [1]
    assert told.calls == []
    assert _row(house, handle.id).status.value == "cancelled"


@pytest.mark.parametrize("how", ["completes", "fails", "cancelled"])
def test_what_is_complete_is_executed_though_the_run_ends(house: House, told: Told, how: str) -> None:
    undone: list[str] = []

    @house.task("do")
    def do() -> None: ...

    @house.task("undo")
    def undo() -> None:
        undone.append("undo")

    @saga(name="ends", errors=[ValueError])
    def ends(run: Run) -> Any:
        run.step(do.si(), undo=undo.si())
        value = run.wait_signal("a")
        if how == "fails":
            raise ValueError("no")
        if how == "cancelled":
            run.sleep(100)
        return value

    house.add(ends)
    handle = ends.start()
    house.drain()
    SignalChord(house, handle.id, ["a"])(told.task.s())
    handle.signal("a", 1)
    if how == "cancelled":
        handle.cancel()
    house.drain()

    assert told.calls == [([1],)]
    assert handle.refresh().status == {"completes": "completed", "fails": "failed", "cancelled": "cancelled"}[how]
    assert undone == ([] if how == "completes" else ["undo"])
    assert _row(house, handle.id).status.value == "done"


def test_undos_do_not_wait_for_it_but_the_end_does(house: House) -> None:
    told = Told(house, fails=1)
    undone: list[str] = []

    @house.task("do")
    def do() -> None: ...

    @house.task("undo")
    def undo() -> None:
        undone.append("undo")

    @saga(name="ends")
    def ends(run: Run) -> Any:
        run.step(do.si(), undo=undo.si())
        run.wait_signal("a")
        run.sleep(1000)

    house.add(ends)
    handle = ends.start()
    house.drain()
    SignalChord(house, handle.id, ["a"])(step(told.task.s(), retry=Retry(delay=60, jitter=False)))
    handle.signal("a", 1)
    house.drain()

    handle.cancel()
    house.drain()
    between = (handle.refresh().status, list(undone), len(told.calls))
    house.advance(61)

    assert between == ("compensating", ["undo"], 1)
    assert handle.refresh().status == "cancelled"
    assert len(told.calls) == 2


def test_an_attempt_that_is_lost_is_made_again(house: House, told: Told) -> None:
    handle = _waits(house, "a").start()
    house.drain()
    SignalChord(house, handle.id, ["a"])(told.task.s())
    handle.signal("a", 1)
    claimed = house.claim_next()
    house.drain()
    between = handle.refresh().status

    house.advance(31)
    late = house.finish(claimed)
    house.drain()

    assert claimed.step.key == "!chord/1"
    assert between == "compensating"  # the body has returned, an attempt is still alive
    assert handle.refresh().status == "completed"
    assert late is False
    assert _row(house, handle.id).attempt == 2


def test_a_suspended_run_executes_it_once_it_is_resumed(house: House, told: Told) -> None:
    handle = _waits(house, "a", "b").start()
    house.drain()
    SignalChord(house, handle.id, ["a"])(told.task.s())
    handle.suspend(reason="pause")
    handle.signal("a", 1)
    house.drain()
    before = list(told.calls)

    handle.resume()
    house.drain()

    assert before == []
    assert told.calls == [([1],)]


def test_a_run_suspended_in_its_undos_executes_it_once_it_is_resumed(house: House, told: Told) -> None:
    @house.task("do")
    def do() -> None: ...

    @house.task("undo")
    def undo() -> None: ...

    @saga(name="ends")
    def ends(run: Run) -> Any:
        run.step(do.si(), undo=undo.si())
        run.wait_signal("a")
        run.sleep(1000)

    house.add(ends)
    handle = ends.start()
    house.drain()
    SignalChord(house, handle.id, ["a"])(told.task.s())
    handle.signal("a", 1)
    handle.cancel()
    handle.suspend(reason="pause")
    house.drain()
    before = list(told.calls)

    handle.resume()
    house.drain()

    assert before == []
    assert told.calls == [([1],)]
    assert handle.refresh().status == "cancelled"


def test_it_goes_along_into_a_new_generation(house: House, told: Told) -> None:
    @saga(name="renews")
    def renews(run: Run, number: int) -> Any:
        value = run.wait_signal("a")
        if number == 1:
            run.continue_as_new(2)
        return [value, run.wait_signal("b")]

    house.add(renews)
    handle = renews.start(1)
    house.drain()
    SignalChord(house, handle.id, ["a", "b"])(told.task.s())
    handle.signal("a", 1)
    house.drain()
    handle.signal("a", 2)
    house.drain()
    handle.signal("b", 3)
    house.drain()

    assert handle.wait(1) == [2, 3]
    assert told.calls == [([1, 3],)]


@pytest.mark.parametrize("how", ["retry", "restart_failed"])
def test_a_run_that_is_retried_goes_on_listening(house: House, told: Told, how: str) -> None:
    @saga(name="fails-first", errors=[ValueError])
    def fails_first(run: Run) -> Any:
        if run.wait_signal("a") == "bad":
            raise ValueError("bad")
        return run.wait_signal("b")

    house.add(fails_first)
    handle = fails_first.options(key="k").start()
    house.drain()
    SignalChord(house, handle.id, ["a", "b"])(told.task.s())
    handle.signal("a", "bad")
    house.drain()
    failed = handle.refresh().status

    if how == "retry":
        handle.retry(from_step="a")
    else:
        fails_first.options(key="k", if_exists="restart_failed").start()
    house.drain()
    handle.signal("a", "good")
    handle.signal("b", "B")
    house.drain()

    assert failed == "failed"
    assert handle.refresh().wait(1) == "B"
    assert told.calls == [(["bad", "B"],)]


def test_the_body_is_replayed_without_it(house: House, told: Told) -> None:
    @house.task("do")
    def do(number: int) -> int:
        return number

    @saga(name="steps")
    def steps(run: Run) -> Any:
        run.wait_signal("a")
        first = run.step(do.si(1))
        run.wait_signal("b")
        return [first, run.step(do.si(2))]

    house.add(steps)
    handle = steps.start()
    SignalChord(house, handle.id, ["a"])(told.task.si())
    house.drain()
    handle.signal("a")
    house.drain()
    handle.signal("b")
    house.drain()

    assert handle.wait(1) == [1, 2]
    assert len(told.calls) == 1


def test_what_cannot_be_hung_writes_nothing(house: House, told: Told) -> None:
    handle = _waits(house, "a", signals=[Signal("a")]).start()
    house.drain()
    sig = told.task.s()

    with pytest.raises(SignalNotExpected, match="'b'"):
        SignalChord(house, handle.id, ["a", "b"])(sig)
    with pytest.raises(RunNotFound):
        SignalChord(house, "00000000-0000-0000-0000-000000000000", ["a"])(sig)
    for wrong in ([], ["a", "a"], "a", ["!cancel"], 3):
        with pytest.raises(DefinitionError):
            SignalChord(house, handle.id, wrong)(sig)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="takes a signature"):
        SignalChord(house, handle.id, ["a"])(told.task)
    with pytest.raises(DefinitionError, match="retry="):
        SignalChord(house, handle.id, ["a"])(step(sig, undo=told.task.si()))
    with pytest.raises(DefinitionError, match="countdown"):
        SignalChord(house, handle.id, ["a"])(told.task.s().set(countdown=3))
    assert [x.key for x in handle.steps()] == ["a"]

    handle.signal("a", 1)
    house.drain()
    with pytest.raises(IllegalTransition, match="completed"):
        SignalChord(house, handle.id, ["a"])(sig)


def test_a_body_cannot_hang_one(house: House, told: Told) -> None:
    @saga(name="hangs", on_bug="compensate")
    def hangs(run: Run) -> None:
        SignalChord(house, run.id, ["a"])(told.task.s())

    house.add(hangs)
    handle = hangs.start()
    house.drain()

    assert handle.refresh().status == "failed"
    assert "replayed" in str(handle.error)


def test_a_run_with_nothing_else_waits_on_without_a_wake_up_of_its_own(house: House, told: Told) -> None:
    handle = _waits(house, "a").start()
    house.drain()
    SignalChord(house, handle.id, ["a"])(told.task.s())

    house.advance(timedelta(days=3).total_seconds())

    assert handle.refresh().status == "waiting"
    assert house.store.without_wake_up() == []
    assert [(each.kind, each.name) for each in handle.waiting_on] == [("signal", "a")]
