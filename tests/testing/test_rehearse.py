"""`rehearse` finds what is wrong with a saga, and nothing in one that is right."""

from __future__ import annotations

import inspect
import random
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from celery_saga import NonRetryable, Retry, Run, StepFailed, saga
from celery_saga.testing import RehearsalFailed, Report, rehearse
from tests.testing import shop
from tests.testing.shop import World, charge, checkout, dispatch, refund, release, reserve


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    fresh = World()
    monkeypatch.setattr(shop, "world", fresh)
    return fresh


def line_of(body: Any, text: str) -> str:
    """`file:line` of the first line of a function that has this in it."""
    lines, first = inspect.getsourcelines(body)
    return f"{__file__}:{first + next(n for n, line in enumerate(lines) if text in line)}"


def test_a_saga_that_is_right_passes(world: World) -> None:
    report = rehearse(checkout, "o1", 200_000, signals={"approval": True}, ledger=world.ledger, app=shop.app)

    assert report.ok
    assert report.steps == ("reserve", "charge", "dispatch")
    names = [scene.name for scene in report.scenes]
    assert "charge fails before its effect" in names
    assert "charge is cut off after its effect" in names
    assert "crash after commit 1 of" in " ".join(names)
    assert {scene.status for scene in report.scenes} == {"completed", "failed"}
    assert world.ledger() == (0, 0)


def test_without_crashes_there_are_two_runs_a_step_and_one_more(world: World) -> None:
    report = rehearse(checkout, "o1", 500, ledger=world.ledger, crash=False, app=shop.app)

    assert len(report.scenes) == 7


def test_a_forgotten_undo_is_found_in_the_ledger(world: World) -> None:
    @saga(name="lab_forgets", key="{order}")
    def forgets(run: Run, order: str) -> None:
        run.step(reserve.si(order))
        run.step(dispatch.si(order))

    with pytest.raises(RehearsalFailed, match="Without undo: reserve") as caught:
        rehearse(forgets, "o1", ledger=world.ledger, app=shop.app)

    fault = caught.value.report.fault
    assert fault is not None and fault.name == "reserve is cut off after its effect"


@pytest.mark.parametrize("seed", range(4))
def test_a_branch_on_chance_is_found_with_its_line(world: World, seed: int) -> None:
    random.seed(seed)

    @saga(name="lab_by_chance", key="{order}")
    def by_chance(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        if random.random() < 0.5:
            run.step(dispatch.si(order))
        run.step(release.si(order))

    with pytest.raises(RehearsalFailed, match="not deterministic") as caught:
        rehearse(by_chance, "o1", app=shop.app)

    assert caught.value.report.line == line_of(by_chance.body, "random.random()")


def test_a_step_chosen_by_chance_is_found_with_the_line_of_the_choice(world: World) -> None:
    @saga(name="lab_chooses", key="{order}")
    def chooses(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        if random.random() < 0.5:
            run.step(dispatch.si(order))
        else:
            run.step(charge.si("k", 5), undo=refund.s("k"))

    with pytest.raises(RehearsalFailed, match="not deterministic") as caught:
        rehearse(chooses, "o1", app=shop.app)

    assert caught.value.report.line == line_of(chooses.body, "random.random()")
    assert line_of(chooses.body, "random.random()") in str(caught.value)


def test_arguments_that_differ_are_found_with_the_line_of_the_step(world: World) -> None:
    @saga(name="lab_clocks", key="{order}")
    def clocks(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        run.step(charge.si("k", time.perf_counter_ns()), undo=refund.s("k"))

    with pytest.raises(RehearsalFailed, match="with arguments") as caught:
        rehearse(clocks, "o1", app=shop.app)

    assert caught.value.report.line == line_of(clocks.body, "perf_counter_ns")


def test_a_global_that_changes_is_found_with_the_line_that_reads_it(world: World) -> None:
    @saga(name="lab_global", key="{order}")
    def by_global(run: Run, order: str) -> None:
        if len(world.sent) > 0:
            run.step(charge.si("k", 5), undo=refund.s("k"))
        run.step(reserve.si(order), undo=release.si(order))
        run.step(dispatch.si(order))
        run.step(release.si(order))

    with pytest.raises(RehearsalFailed, match="not deterministic") as caught:
        rehearse(by_global, "o1", app=shop.app, reset=world.sent.clear)

    assert caught.value.report.line == line_of(by_global.body, "len(world.sent)")


def test_a_clock_that_is_read_is_a_warning_with_its_line(world: World) -> None:
    def hour() -> int:
        return datetime.now(UTC).hour

    @saga(name="lab_reads_the_clock", key="{order}")
    def by_day(run: Run, order: str) -> None:
        if hour() > 100 or uuid.uuid4().int == 0:
            run.step(dispatch.si(order))
        run.record("now", lambda: time.time() + 1)
        run.record("then", time.time)
        run.step(reserve.si(order), undo=release.si(order))

    with pytest.warns(UserWarning) as warned:
        report = rehearse(by_day, "o1", app=shop.app, crash=False)

    assert len(report.doubts) == len(warned) == 2
    assert report.doubts[0].startswith(f"{line_of(hour, 'datetime.now')} calls datetime.now()")
    assert report.doubts[1].startswith(f"{line_of(by_day.body, 'uuid4')} calls uuid4()")


def test_what_is_computed_once_by_the_run_is_no_chance(world: World) -> None:
    @saga(name="lab_recorded", key="{order}")
    def recorded(run: Run, order: str) -> float:
        drawn = run.record("drawn", random.random)
        if drawn < 0.5:
            run.step(reserve.si(order), undo=release.si(order))
        else:
            run.step(charge.si("k", run.random() and 5), undo=refund.s("k"))
        return run.now().timestamp()

    assert rehearse(recorded, "o1", app=shop.app).ok


def test_a_task_that_is_not_idempotent_is_found_by_a_crash(world: World) -> None:
    def charge_again(key: str, cents: int) -> str:
        world.notes.append(cents)
        return "ch_1"

    def refund_once(charge_id: str | None, key: str) -> None:
        world.notes.pop()

    stubs = {charge: charge_again, refund: refund_once}

    with pytest.raises(RehearsalFailed, match=r"same idempotency key: charge \(2 times\)") as caught:
        rehearse(checkout, "o1", 500, stubs=stubs, app=shop.app, ledger=lambda: sum(world.notes))

    assert "crash before commit" in str(caught.value.report.fault)
    assert rehearse(checkout, "o1", 500, stubs=stubs, app=shop.app, ledger=lambda: sum(world.notes), crash=False).ok


def test_a_swallowed_failure_is_found_unless_it_is_said_to_be_a_detour(world: World) -> None:
    @saga(name="lab_swallows", key="{order}")
    def swallows(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        key = run.idempotency_key("charge")
        with suppress(StepFailed):
            run.step(charge.si(key, 5), undo=refund.s(key))

    assert rehearse(swallows, "o1", app=shop.app, ledger=world.ledger, detours=["charge"]).ok
    with pytest.raises(RehearsalFailed, match="charge fails before its effect: completed - it completed, but"):
        rehearse(swallows, "o1", app=shop.app, ledger=world.ledger)


def test_a_wait_without_signal_is_said(world: World) -> None:
    @saga(name="lab_waits", key="{order}")
    def waits(run: Run, order: str) -> None:
        run.wait_signal("go")

    with pytest.raises(RehearsalFailed, match="it waits for go without time-out"):
        rehearse(waits, "o1", app=shop.app)
    assert rehearse(waits, "o1", app=shop.app, signals={"go": None}).ok


@pytest.mark.parametrize("mode", ["all", "any", 2])
def test_several_signals_are_sent_as_far_as_they_are_waited_for(world: World, mode: Any) -> None:
    @saga(name=f"lab_waits_for_{mode}", key="{order}")
    def waits(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        run.wait_signals(["go", "pay", "late"] if mode != "all" else ["go", "pay"], mode=mode)
        run.step(dispatch.si(order))

    assert rehearse(waits, "o1", app=shop.app, signals={"go": None, "pay": 3}).ok


def test_a_signal_that_is_not_given_runs_into_its_time_out(world: World) -> None:
    report = rehearse(checkout, "o1", 200_000, ledger=world.ledger, app=shop.app, crash=False)

    assert {scene.status for scene in report.scenes} == {"failed"}
    assert report.steps == ("reserve",)
    assert report.notes == ["undisturbed: failed - it has the error Rejected('o1')"]


def test_an_undo_that_needs_the_result_gets_it_and_that_is_noted(world: World) -> None:
    @saga(name="lab_needs", key="{order}")
    def needs(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=undo_with_result)
        run.step(dispatch.si(order))

    @shop.app.task(name="lab_shop.undo_with_result", shared=False)
    def undo_with_result(order: str) -> None:
        world.stock.discard(order)

    report = rehearse(needs, "o1", ledger=world.ledger, app=shop.app)

    assert ["it does not take None" in note for note in report.notes] == [True]
    assert world.ledger() == (0, 0)


def test_an_undo_that_fails_is_found(world: World) -> None:
    with pytest.raises(RehearsalFailed, match="undo 'reserve!undo' is used up"):
        rehearse(checkout, "o1", 500, app=shop.app, stubs={release: NonRetryable("no")})


def test_a_saga_without_key_and_with_an_accumulating_ledger_passes(world: World) -> None:
    books: dict[str, int] = {"paid": 0}
    seen: set[str] = set()

    def pay(key: str, cents: int) -> str:
        books["paid"] += 0 if key in seen else cents
        seen.add(key)
        return "ch"

    def give_back(charge_id: str | None, key: str) -> None:
        books["paid"] -= 5 if key in seen else 0
        seen.discard(key)

    @saga(name="lab_keyless")
    def keyless(run: Run) -> None:
        key = run.idempotency_key("charge")
        run.step(charge.si(key, 5), undo=refund.s(key))
        run.sleep(3600)
        run.step(dispatch.si("o"), undo=release.si("o"))

    assert rehearse(keyless, ledger=lambda: books, app=shop.app, stubs={charge: pay, refund: give_back}).ok


def test_a_run_that_waits_for_a_person_after_a_failure_is_undone_and_noted(world: World) -> None:
    @saga(name="lab_asks_a_person", key="{order}", on_failure="suspend")
    def asks(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        run.step(charge.si("k", 5), undo=refund.s("k"))

    report = rehearse(asks, "o1", ledger=world.ledger, app=shop.app)

    assert report.ok
    assert {"on_failure='suspend'" in note for note in report.notes} == {True}


def test_a_body_that_breaks_on_a_failure_is_found(world: World) -> None:
    @saga(name="lab_breaks", key="{order}")
    def breaks(run: Run, order: str) -> None:
        try:
            run.step(reserve.si(order), undo=release.si(order))
        except StepFailed as error:
            raise KeyError(order) from error

    with pytest.raises(RehearsalFailed, match=r"it is parked \(body_error: KeyError"):
        rehearse(breaks, "o1", ledger=world.ledger, app=shop.app)


def test_a_task_with_retries_of_its_own_is_cut_off_in_each_of_them(world: World) -> None:
    @saga(name="lab_retries", key="{order}")
    def retries(run: Run, order: str) -> None:
        run.step(charge.si("k", 5), undo=refund.s("k"), retry=Retry(5, delay=60))

    assert rehearse(retries, "o1", ledger=world.ledger, app=shop.app).ok


def test_a_world_that_cannot_be_put_back_by_undoing_needs_reset(world: World) -> None:
    def send_once(order: str) -> None:
        if order in world.sent:
            raise NonRetryable("sent before")
        world.sent.append(order)

    @saga(name="lab_sends_once", key="{order}")
    def sends(run: Run, order: str) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        run.step(dispatch.si(order))

    def again(**how: Any) -> Report:
        return rehearse(sends, "o1", ledger=world.ledger, app=shop.app, stubs={dispatch: send_once}, crash=False, **how)

    assert "sent before" in " ".join(again().notes)
    assert again(reset=world.sent.clear).notes == []
