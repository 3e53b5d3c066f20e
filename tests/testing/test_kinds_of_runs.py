"""Joins, transactional steps and what else a run is made of, in the laboratory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery import chain

from celery_saga import Run, Saga, StepFailed, current_step, saga, step
from celery_saga.testing import Lab, RehearsalFailed, rehearse
from tests.testing import shop
from tests.testing.shop import OutOfStock, World, dispatch, release, reserve


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    fresh = World()
    monkeypatch.setattr(shop, "world", fresh)
    return fresh


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(shop.app) as opened:
        yield opened


@saga(name="lab_kinds_group", errors=[OutOfStock])
def grouped(run: Run, orders: list[str]) -> int:
    held = run.map(reserve, orders, undo=release)
    run.group(dispatch.si(held[0]), lambda part: part.step(reserve.si("again"), undo=release))
    return len(held)


def test_maps_and_groups_are_executed_part_by_part(lab: Lab, world: World) -> None:
    run = lab.start(grouped, ["a", "b", "c"])
    lab.drain()

    assert run.result == 3
    assert sorted(world.stock) == ["a", "again", "b", "c"]
    assert len({call.idempotency_key for call in lab.calls}) == 5


def test_parts_are_undone_when_another_part_fails(lab: Lab, world: World) -> None:
    lab.fail(dispatch, OutOfStock("a"))
    run = lab.start(grouped, ["a", "b"])
    lab.drain()

    assert run.status == "failed"
    assert world.stock == set()


def test_an_undo_that_takes_none_and_does_nothing_then_is_found(world: World) -> None:
    with pytest.raises(RehearsalFailed, match=r"map\[0\] is cut off after its effect") as caught:
        rehearse(grouped, ["a", "b"], ledger=lambda: len(world.stock), app=shop.app)

    assert "the ledger says 1, and said 0 before" in str(caught.value)


def test_a_group_is_rehearsed(world: World) -> None:
    @saga(name="lab_kinds_fine_group")
    def fine(run: Run) -> None:
        run.group(
            step(reserve.si("a"), undo=release.si("a")),
            lambda part: part.step(reserve.si("b"), undo=release.si("b")),
        )

    report = rehearse(fine, ledger=lambda: len(world.stock), app=shop.app)

    assert report.ok
    assert len(report.steps) == 2


def test_a_race_is_won_by_the_time_that_has_come(lab: Lab) -> None:
    @saga(name="lab_kinds_race")
    def races(run: Run) -> str:
        return run.race(answer=lambda part: part.wait_signal("answer"), late=timedelta(hours=1)).name

    run = lab.start(races)
    lab.advance(3599)
    before = run.status
    lab.advance(1)

    assert (before.value, run.result) == ("waiting", "late")


def test_a_transactional_step_commits_with_its_checkpoint(lab: Lab, world: World) -> None:
    @saga(name="lab_kinds_transactional")
    def writes(run: Run) -> str:
        return run.step(step(reserve.si("a"), transactional=True))

    def write(order: str) -> str:
        world.notes.append(current_step.connection is not None)
        return order

    lab.stub(reserve, side_effect=write)
    run = lab.start(writes)
    lab.drain()

    assert run.result == "a"
    assert world.notes == [True]


def test_progress_is_seen_while_the_task_runs(lab: Lab, world: World) -> None:
    def tell(order: str) -> str:
        current_step.progress(1, 2, "half")
        world.notes.append(lab.get(run).progress)
        return order

    @saga(name="lab_kinds_progress")
    def tells(run: Run) -> str:
        return run.step(reserve.si("a"))

    lab.stub(reserve, side_effect=tell)
    run = lab.start(tells)
    lab.drain()

    assert world.notes[0]["reserve"].message == "half"


def test_a_child_is_executed_and_rehearsed_with_its_parent(world: World) -> None:
    @saga(name="lab_kinds_child", key="{order}")
    def child(run: Run, order: str) -> str:
        return run.step(reserve.si(order), undo=release.si(order))

    @saga(name="lab_kinds_parent")
    def parent(run: Run, order: str) -> str:
        held = run.child(child, order)
        key = run.idempotency_key("charge")
        run.step(shop.charge.si(key, 5), undo=shop.refund.s(key))
        return held

    report = rehearse(parent, "a", ledger=world.ledger, app=shop.app)

    assert report.ok
    assert report.steps == ("reserve", "charge")


def test_scopes_are_rehearsed(world: World) -> None:
    @saga(name="lab_kinds_scope")
    def scoped(run: Run) -> str:
        key = run.idempotency_key("charge")
        run.step(shop.charge.si(key, 5), undo=shop.refund.s(key))
        try:
            with run.scope("inner"):
                run.step(reserve.si("a"), undo=release.si("a"))
                run.step(dispatch.si("a"))
        except StepFailed:
            return "another way"
        return "all"

    report = rehearse(
        scoped, ledger=world.ledger, app=shop.app, detours=["inner/reserve", "inner/dispatch"], crash=False
    )

    assert [scene.status for scene in report.scenes].count("completed") == 5


def test_behind_a_pivot_a_person_resumes_the_rehearsal(world: World) -> None:
    @saga(name="lab_kinds_pivot")
    def pivots(run: Run) -> None:
        run.step(reserve.si("a"), undo=release.si("a"))
        run.pivot()
        run.step(dispatch.si("a"))

    report = rehearse(pivots, ledger=lambda: len(world.stock), app=shop.app, crash=False)

    assert ["behind the pivot" in note for note in report.notes] == [True]


def test_a_canvas_and_a_run_that_begins_anew_are_executed(lab: Lab) -> None:
    @shop.app.task(name="lab_shop.add", shared=False)
    def add(x: int, y: int) -> int:
        return x + y

    @saga(name="lab_kinds_again")
    def again(run: Run, count: int) -> int:
        run.step(add.si(count, 1))
        if count < 3:
            run.sleep(3600)
            run.continue_as_new(count + 1)
        return count

    canvas = lab.start(Saga.from_canvas("lab_kinds_canvas", chain(add.s(1, 2), add.s(3))))
    lab.drain()
    begun = lab.now

    assert canvas.result == 6
    assert lab.start(again, 1).wait() == 3
    assert lab.now - begun == timedelta(hours=2)
