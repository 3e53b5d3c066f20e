"""`task_always_eager`: runs are executed where they are started, without broker and worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_saga import DeadlineExceeded, Retry, Run, RunFailed, WaitTimeout, saga
from tests.runtime.places import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    settings = {
        "task_always_eager": True,
        "broker_url": "redis://127.0.0.1:1/0",  # nobody is there
        "saga_database_url": f"sqlite:///{tmp_path}/sagas.db",
    }
    found = Place(settings, tmp_path)
    yield found
    found.close()


def test_a_run_is_complete_when_start_returns(place: Place) -> None:
    run = place.shop.checkout.start("o1", 500)

    assert run.status == "completed"
    assert run.result == "ch-500"


def test_retries_run_at_once_and_are_counted(place: Place) -> None:
    run = place.shop.checkout.start("o2", 13)

    assert run.result == "ch-13"
    assert [line.split()[3] for line in place.calls() if line.startswith("charge")] == ["0", "1", "2"]


def test_a_failed_run_is_undone_when_start_returns(place: Place) -> None:
    run = place.shop.checkout.start("none", 7)

    assert run.status == "failed"
    assert [line.split()[0] for line in place.calls()] == ["reserve", "charge", "dispatch", "refund", "release"]
    with pytest.raises(RunFailed):
        run.wait(1)


def test_a_run_stops_at_its_wait_and_a_signal_drives_it_on(place: Place) -> None:
    run = place.shop.approval.start()
    before = run.status

    run.signal("go", "x")

    assert before == "waiting"
    assert run.refresh().status == "completed"
    assert place.calls() == ["reserve a", "dispatch x"]


def test_a_run_of_a_thousand_steps_needs_no_deeper_stack(place: Place) -> None:
    assert place.shop.long_one.start(300).result == 300


def test_tasks_outside_a_saga_are_eager_as_before(place: Place) -> None:
    place.shop.checkout.start("o1", 500)

    assert place.shop.classy.delay(1).get() == 2
    assert place.shop.wrapped.delay(2).get() == 4
    assert place.shop.wrapped(3) == 6


@pytest.mark.parametrize("kind", ["bound", "classy", "wrapped", "typed", "asks_again", "nested"])
def test_each_kind_of_task_is_a_step(kind: str, place: Place) -> None:
    assert place.shop.kind_of.start(kind).status == "completed"


def test_sending_a_task_in_a_body_parks_the_run(place: Place) -> None:
    run = place.shop.impure.start()

    assert run.status == "suspended"
    assert place.calls() == []


def test_sending_a_task_is_refused_before_any_step_has_run_and_for_tasks_registered_later(place: Place) -> None:
    sent: list[int] = []

    @place.shop.app.task(name="eager.late", shared=False)
    def late(number: int) -> None:
        sent.append(number)

    @saga(name="eager_sends_late")
    def sends(run: Run, how: str) -> None:
        getattr(late, how)(1) if how == "delay" else getattr(late, how)((1,))

    runs = [sends.start(how) for how in ("delay", "apply_async", "apply")]

    assert [run.status for run in runs] == ["suspended"] * 3
    assert "run.step(late.si(...))" in str(runs[0].error)
    assert sent == []


def test_a_step_whose_task_is_not_registered_fails_and_names_it(place: Place) -> None:
    @saga(name="eager_missing")
    def missing(run: Run) -> None:
        run.step(place.shop.reserve.si("a"), undo=place.shop.release)
        run.step(place.shop.app.signature("no.such.task", immutable=True), retry=Retry(5))

    run = missing.start()

    assert run.status == "failed"
    with pytest.raises(RunFailed, match=r"no\.such\.task") as caught:
        run.wait(1)
    assert caught.value.step == "task"
    assert place.calls() == ["reserve a", "release r-a"]


def test_an_undo_whose_task_is_not_registered_is_left_to_a_person(place: Place) -> None:
    @saga(name="eager_missing_undo", errors=[ValueError])
    def missing(run: Run) -> None:
        run.step(place.shop.reserve.si("a"), undo=place.shop.app.signature("no.such.undo"))
        raise ValueError("no")

    run = missing.start()

    assert run.status == "compensation_failed"
    assert any("no.such.undo" in (step.error_text or "") for step in run.steps())


def test_waiting_lets_a_sleep_end(place: Place) -> None:
    @saga(name="eager_sleeps")
    def sleeps(run: Run) -> int:
        run.sleep(0.2)
        first: int = run.step(place.shop.one.si())
        run.sleep(0.1)
        return first

    run = sleeps.start()

    assert run.status == "waiting"
    assert run.wait(5) == 1


def test_waiting_lets_the_time_out_of_a_signal_and_a_countdown_come(place: Place) -> None:
    @saga(name="eager_times_out")
    def times_out(run: Run) -> str:
        answer: str = run.wait_signal("go", timeout=0.2, default="nobody")
        return answer

    run = times_out.options(countdown=0.2).start()

    assert run.status == "queued"
    assert run.wait(5) == "nobody"


def test_waiting_lets_a_deadline_come_and_undoes(place: Place) -> None:
    @saga(name="eager_deadline", deadline=0.3)
    def late(run: Run) -> None:
        run.step(place.shop.reserve.si("a"), undo=place.shop.release)
        run.wait_signal("never")

    run = late.start()

    with pytest.raises(RunFailed) as caught:
        run.wait(5)
    assert isinstance(caught.value.cause, DeadlineExceeded)
    assert place.calls() == ["reserve a", "release r-a"]


def test_waiting_in_an_event_loop_and_following_events_drive_too(place: Place) -> None:
    @saga(name="eager_async")
    def sleeps(run: Run) -> str:
        run.sleep(0.1)
        return "slept"

    assert asyncio.run(sleeps.start().wait_async(5)) == "slept"
    assert [event.action for event in sleeps.start().events()][-1] == "end"


def test_waiting_for_one_run_leaves_the_others_alone(place: Place) -> None:
    @saga(name="eager_alone")
    def sleeps(run: Run) -> None:
        run.sleep(0.1)

    other, mine = sleeps.start(), sleeps.start()

    mine.wait(5)

    assert other.refresh().status == "waiting"


def test_waiting_in_vain_executes_the_body_no_more_often(place: Place) -> None:
    passes: list[int] = []

    @saga(name="eager_in_vain")
    def waits(run: Run) -> None:
        passes.append(1)
        run.wait_signal("never")

    run = waits.start()
    before = len(passes)

    with pytest.raises(WaitTimeout):
        run.wait(0.3)

    assert len(passes) == before
    assert run.refresh().status == "waiting"


def test_the_retry_of_a_body_does_not_wait(place: Place) -> None:
    tries: list[int] = []

    @saga(name="eager_body_again", errors=[ValueError], retry=Retry(3, delay=60, jitter=False))
    def again(run: Run) -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("again")
        return len(tries)

    assert again.start().result == 3


def test_the_retry_of_a_step_does_not_wait(place: Place) -> None:
    @saga(name="eager_step_again")
    def again(run: Run) -> str:
        word: str = run.step(place.shop.charge.si("k", 13), retry=Retry(3, delay=60, jitter=False))
        return word

    assert again.start().result == "ch-13"


def test_a_number_that_celery_cannot_print_is_a_result_all_the_same(place: Place) -> None:
    @place.shop.app.task(name="eager.huge", shared=False)  # type: ignore[untyped-decorator,unused-ignore]
    def huge(number: int) -> int:
        return number

    @saga(name="eager_huge")
    def counts(run: Run) -> int:
        big: int = run.step(huge.si(10**5000))
        return big + int(run.step(place.shop.one.si()))

    assert counts.start().result == 10**5000 + 1


@pytest.mark.parametrize(("hook", "status"), [("before_start", "failed"), ("on_success", "completed")])
def test_a_hook_that_raises_leaves_no_run_behind(place: Place, hook: str, status: str) -> None:
    def raises(*_: object) -> None:
        raise ValueError("of a hook")

    def one() -> int:
        return 1

    task = place.shop.app.task(name=f"eager.{hook}", shared=False, **{hook: staticmethod(raises)})(one)

    @saga(name=f"eager_{hook}")
    def hooked(run: Run) -> None:
        run.step(task.si(), retry=Retry(2, delay=60))

    run = hooked.start()

    assert run.status == status
    assert [step.attempt for step in run.steps()] == [2 if status == "failed" else 1]


def test_joins_are_executed_where_the_run_is_started(place: Place) -> None:
    assert place.shop.together.start().result == [[4, 10], [0, 2, 4, 6]]
