"""A changed body meets live runs: it parks them if and only if the preview said so, and what lies ahead is taken up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from celery_saga import Run, Saga, Signal, saga
from celery_saga.core.ports import RunFilter
from celery_saga.engine.previewing import preview
from tests.scenarios.house import House

Body = Callable[[Run, "Tasks"], Any]
GO = Signal("go", str)


class Tasks:
    """Steps that note their arguments."""

    def __init__(self, house: House) -> None:
        self.calls: list[str] = []

        def make(name: str) -> Any:
            @house.task(f"changed.{name}")
            def task(*args: Any) -> str:
                self.calls.append(f"{name}{args or ''}")
                return name

            return task

        self.a, self.b, self.c, self.x = (make(name) for name in "abcx")

        @house.task("moved.a")
        def moved_a(*args: Any) -> str:
            return "moved"

        self.moved_a = moved_a


def deploy(house: House, body: Body, tasks: Tasks, *, errors: Any = (), version: int = 1) -> Saga[[], Any]:
    """The code of all workers is now this body."""

    @saga(name="changed", version=version, errors=errors)
    def changed(run: Run) -> Any:
        return body(run, tasks)

    house.registry._sagas.clear()
    house.registry.add(changed)
    return changed


def original(run: Run, t: Tasks) -> list[Any]:
    """The run stands at `go`: a and b lie behind it, c ahead."""
    a = run.step(t.a.si(1))
    b = run.step(t.b.si(2))
    word = run.wait_signal(GO)
    return [a, b, word, run.step(t.c.si(3))]


def inserted_before(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1))
    run.step(t.x.si())
    run.step(t.b.si(2))
    run.wait_signal(GO)


def inserted_first(run: Run, t: Tasks) -> Any:
    run.step(t.x.si())
    return original(run, t)


def inserted_same_task(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1))
    run.step(t.a.si(1))
    run.step(t.b.si(2))
    run.wait_signal(GO)


def inserted_sleep(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1))
    run.sleep(5)
    run.step(t.b.si(2))
    run.wait_signal(GO)


def removed(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1))
    run.wait_signal(GO)


def removed_wait(run: Run, t: Tasks) -> Any:
    return [run.step(t.a.si(1)), run.step(t.b.si(2))]


def swapped(run: Run, t: Tasks) -> Any:
    run.step(t.b.si(2))
    run.step(t.a.si(1))
    run.wait_signal(GO)


def renamed(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1), name="first")
    run.step(t.b.si(2))
    run.wait_signal(GO)


def other_task(run: Run, t: Tasks) -> Any:
    run.step(t.moved_a.si(1))
    run.step(t.b.si(2))
    run.wait_signal(GO)


def other_arguments(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(7))
    run.step(t.b.si(2))
    run.wait_signal(GO)


def other_signal(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1))
    run.step(t.b.si(2))
    run.wait_signal("other")


def other_kind(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1))
    run.sleep(5, name="b")
    run.wait_signal(GO)


def raising(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1))
    raise NameError("no such thing")


@dataclass(frozen=True)
class Case:
    """A change in front of where the run is, and what the error must name: the record, and what the body wants."""

    body: Body
    recorded: str
    asked: str


BEFORE = [
    Case(inserted_before, "'b'", "'x'"),
    Case(inserted_first, "'a'", "'x'"),
    Case(inserted_same_task, "'b'", "'a#2'"),
    Case(inserted_sleep, "'b'", "timer 'sleep'"),
    Case(removed, "'b'", "'go'"),
    Case(removed_wait, "signal 'go'", "the body ended without asking for it"),
    Case(swapped, "'a'", "'b'"),
    Case(renamed, "'a'", "'first'"),
    Case(other_task, "changed.a", "moved.a"),
    Case(other_arguments, "[[1],", "[[7],"),
    Case(other_signal, "'go'", "'other'"),
    Case(other_kind, "step 'b'", "timer 'b'"),
    Case(raising, "step 'b'", "NameError: no such thing"),
]


@pytest.fixture
def tasks(house: House) -> Tasks:
    return Tasks(house)


def preview_of(house: House) -> list[tuple[str, str]]:
    before = [house.store.load(run.id) for run in house.store.runs(_all())]
    found = preview(house.store, house.registry, resend_s=30.0)
    after = [house.store.load(run.id) for run in house.store.runs(_all())]
    assert [x and x.snapshot for x in before] == [x and x.snapshot for x in after], "a preview writes nothing"
    return [(each.reason, each.message) for each in found]


def _all() -> Any:
    return RunFilter()


@pytest.mark.parametrize("case", BEFORE, ids=lambda case: case.body.__name__)
def test_a_change_in_front_of_the_run_parks_it_and_names_both_sides(house: House, tasks: Tasks, case: Case) -> None:
    handle = deploy(house, original, tasks).start()
    house.drain()
    assert handle.status == "waiting"
    deploy(house, case.body, tasks)

    foreseen = preview_of(house)
    handle.signal("go", "on")
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (run.status, run.reason) == ("suspended", "non_determinism")
    assert run.error is not None and run.error.type_name.endswith("NonDeterminismError")
    assert case.recorded in run.error.message and case.asked in run.error.message, run.error.message
    assert foreseen == [("non_determinism", f"NonDeterminismError: {run.error.message}")]
    assert tasks.calls == ["a(1,)", "b(2,)"]
    assert house.actions(handle.id).count("park") == 1


@pytest.mark.parametrize("case", BEFORE, ids=lambda case: case.body.__name__)
def test_with_the_old_order_back_a_parked_run_goes_on(house: House, tasks: Tasks, case: Case) -> None:
    handle = deploy(house, original, tasks).start()
    house.drain()
    deploy(house, case.body, tasks)
    handle.signal("go", "on")
    house.drain()

    deploy(house, original, tasks)
    assert preview_of(house) == []
    handle.resume()
    house.drain()

    assert handle.wait(1) == ["a", "b", "on", "c"]
    assert tasks.calls == ["a(1,)", "b(2,)", "c(3,)"]


def inserted_behind(run: Run, t: Tasks) -> Any:
    before = [run.step(t.a.si(1)), run.step(t.b.si(2)), run.wait_signal(GO)]
    return [*before, run.step(t.x.si()), run.step(t.c.si(3))]


def removed_behind(run: Run, t: Tasks) -> Any:
    return [run.step(t.a.si(1)), run.step(t.b.si(2)), run.wait_signal(GO)]


def other_behind(run: Run, t: Tasks) -> Any:
    before = [run.step(t.a.si(1)), run.step(t.b.si(2)), run.wait_signal(GO)]
    return [*before, run.step(t.c.si(99), name="last"), run.step(t.a.si(5))]


def patched_before(run: Run, t: Tasks) -> Any:
    way = run.step(t.x.si()) if run.patched("x-first") else "no x"
    return [way, *original(run, t)]


def patched_behind(run: Run, t: Tasks) -> Any:
    before = [run.step(t.a.si(1)), run.step(t.b.si(2)), run.wait_signal(GO)]
    return [*before, run.step(t.x.si()) if run.patched("x-last") else run.step(t.c.si(3))]


def other_options(run: Run, t: Tasks) -> Any:
    run.step(t.a.si(1), undo=t.x.s(), timeout=60)
    return [run.step(t.b.si(2), timeout=timedelta(minutes=5)), run.wait_signal(GO), run.now().year]


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (inserted_behind, ["a", "b", "on", "x", "c"]),
        (removed_behind, ["a", "b", "on"]),
        (other_behind, ["a", "b", "on", "c", "a"]),
        (patched_before, ["no x", "a", "b", "on", "c"]),
        (patched_behind, ["a", "b", "on", "x"]),
        (other_options, ["b", "on", 2026]),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
def test_a_change_behind_the_run_is_taken_up(house: House, tasks: Tasks, body: Body, result: Any) -> None:
    handle = deploy(house, original, tasks).start()
    house.drain()
    deploy(house, body, tasks)

    foreseen = preview_of(house)
    handle.signal("go", "on")
    house.drain()

    assert foreseen == []
    assert handle.wait(1) == result


def test_a_patched_run_stays_patched_over_all_replays_and_an_old_one_old(house: House, tasks: Tasks) -> None:
    old = deploy(house, original, tasks).start()
    house.drain()
    new = deploy(house, patched_before, tasks).start()
    house.drain()

    for handle in (old, new):
        assert preview_of(house) == []
        handle.signal("go", "on")
        house.drain()

    assert old.wait(1) == ["no x", "a", "b", "on", "c"]
    assert new.wait(1) == ["x", "a", "b", "on", "c"]
    assert [x.key for x in new.steps()][:2] == ["x-first!patched", "x"]
    assert "!patched" not in "".join(x.key for x in old.steps())


def test_a_run_that_starts_over_takes_the_change_where_nothing_lies_behind_any_more(
    house: House,
    tasks: Tasks,
) -> None:
    handle = deploy(house, original, tasks).start()
    house.drain()
    handle.cancel()
    house.drain()
    deploy(house, patched_before, tasks)

    handle.retry(from_step="a")
    house.drain()
    handle.refresh().signal("go", "on")
    house.drain()

    assert handle.wait(1) == ["x", "a", "b", "on", "c"]


def test_a_retry_keeps_the_answer_of_a_run_that_has_the_change(house: House, tasks: Tasks) -> None:
    fails = [True]

    @house.task("changed.d")
    def d() -> str:
        if fails.pop():
            raise LookupError("once")
        return "d"

    def failing(run: Run, t: Tasks) -> Any:
        a = run.step(t.a.si(1))
        way = run.step(t.x.si()) if run.patched("x") else "no x"
        return [a, way, run.step(d.si())]

    handle = deploy(house, failing, tasks).start()
    house.drain()
    assert handle.status == "failed"
    fails.append(False)

    handle.retry()
    house.drain()

    assert handle.wait(1) == ["a", "x", "d"]
    assert tasks.calls == ["a(1,)", "x"]


def test_a_version_that_nobody_knows_is_foreseen_and_the_run_waits_for_its_code(house: House, tasks: Tasks) -> None:
    handle = deploy(house, original, tasks).start()
    house.drain()
    deploy(house, removed, tasks, version=2)

    foreseen = preview_of(house)
    handle.signal("go", "on")
    house.drain()

    assert foreseen == [("unknown_version", "this code does not know the saga 'changed' in version 1")]
    assert handle.status in ("running", "queued")
    deploy(house, original, tasks)
    house.advance(120)
    assert handle.wait(1) == ["a", "b", "on", "c"]


def test_several_versions_live_side_by_side(house: House, tasks: Tasks) -> None:
    first = deploy(house, original, tasks)
    old = first.start()
    house.drain()
    second = deploy(house, swapped, tasks, version=2)
    house.registry.add(first)
    new = second.start()
    house.drain()

    assert preview_of(house) == []
    for handle in (old, new):
        handle.signal("go", "on")
    house.drain()

    assert (old.status, new.status) == ("completed", "completed")
    assert tasks.calls == ["a(1,)", "b(2,)", "b(2,)", "a(1,)", "c(3,)"]


def taking_a_text() -> Saga[[str], None]:
    @saga(name="changed_input")
    def changed_input(run: Run, count: str) -> None:
        run.wait_signal(GO)

    return changed_input


def taking_a_number() -> Saga[[int], None]:
    @saga(name="changed_input")
    def changed_input(run: Run, count: int) -> None:
        run.wait_signal(GO)

    return changed_input


def test_input_that_the_code_cannot_decode_is_foreseen_and_parks(house: House, tasks: Tasks) -> None:
    before = taking_a_text()
    house.add(before)
    handle = before.start("many")
    house.drain()
    house.registry._sagas.clear()
    house.add(taking_a_number())

    ((reason, message),) = preview_of(house)
    handle.signal("go", "on")
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (run.status, run.reason, reason) == ("suspended", "input", "input")
    assert run.error is not None and message == f"InvalidPayload: {run.error.message}"


def test_a_body_that_raises_where_the_run_is_is_foreseen_and_parks(house: House, tasks: Tasks) -> None:
    def buggy(run: Run, t: Tasks) -> Any:
        run.step(t.a.si(1))
        return run.step(t.b.si(2)).nonsense

    def short(run: Run, t: Tasks) -> Any:
        run.step(t.a.si(1))
        run.step(t.b.si(2))
        raise LookupError("a bug")

    handle = deploy(house, short, tasks).start()
    house.drain()
    assert house.engine.run_of(handle.id).reason == "body_error"

    deploy(house, buggy, tasks)
    ((reason, message),) = preview_of(house)
    handle.resume()
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (run.status, run.reason, reason) == ("suspended", "body_error", "body_error")
    assert "nonsense" in message


def test_runs_that_are_only_being_undone_need_no_body(house: House, tasks: Tasks) -> None:
    def undone(run: Run, t: Tasks) -> Any:
        run.step(t.a.si(1), undo=t.x.si())
        run.wait_signal(GO)

    handle = deploy(house, undone, tasks).start()
    house.drain()
    handle.cancel()
    assert handle.status == "compensating"
    deploy(house, swapped, tasks)

    assert preview_of(house) == []
    house.drain()
    assert handle.refresh().status == "cancelled"


def test_a_run_that_is_undone_to_start_over_is_previewed_as_it_will_start(house: House, tasks: Tasks) -> None:
    def undone(run: Run, t: Tasks) -> Any:
        run.step(t.b.si(2))
        run.step(t.a.si(1), undo=t.x.si())
        run.wait_signal(GO)

    handle = deploy(house, undone, tasks).start()
    house.drain()
    handle.cancel(compensate=False)
    handle.retry(from_step="a")
    assert handle.refresh().status == "compensating"

    assert preview_of(house) == []
    deploy(house, original, tasks)
    foreseen = preview_of(house)
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (run.status, run.reason) == ("suspended", "non_determinism")
    assert run.error is not None
    assert foreseen == [("non_determinism", f"NonDeterminismError: {run.error.message}")]


def test_a_preview_calls_no_function_whose_value_is_not_recorded(house: House, tasks: Tasks) -> None:
    def recording(run: Run, t: Tasks) -> Any:
        run.step(t.a.si(1))
        run.step(t.b.si(2))
        return run.record("flag", lambda: tasks.calls.append("recorded"))

    def failing(run: Run, t: Tasks) -> Any:
        run.step(t.a.si(1))
        run.step(t.b.si(2))
        raise LookupError("a bug")

    deploy(house, failing, tasks).start()
    house.drain()
    deploy(house, recording, tasks)

    assert preview_of(house) == []
    assert tasks.calls == ["a(1,)", "b(2,)"]
