"""The compensation desk: who is on it and since when, and what a person does about an undo."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga import IllegalTransition, InvalidPayload, Run, saga
from celery_saga.testing import Lab
from tests.desk import house
from tests.desk.house import UNDONE, WAYS, app


@pytest.fixture
def lab() -> Iterator[Lab]:
    UNDONE.clear()
    with Lab(app) as opened:
        yield opened


def test_a_run_is_on_the_desk_since_its_undo_failed_for_the_fifth_time_and_leaves_it_with_that(lab: Lab) -> None:
    lab.fail("reserve!undo", ConnectionError("no"), times=5)
    handle = lab.start(house.STUBBORN, "k")
    lab.advance(239)
    before = list(app.saga.desk())

    lab.advance(2)
    (entry,) = app.saga.desk()
    lab.advance(60)

    assert before == []
    assert (entry.why, entry.undos[0].failures, entry.undos[0].error.message) == ("undo_failing", 5, "no")
    assert (entry.undos[0].next_try_at - entry.since).total_seconds() == 60
    assert handle.status == "failed"
    assert list(app.saga.desk()) == []


def test_it_stays_where_it_was_when_it_ends_with_its_undo_used_up(lab: Lab) -> None:
    handle = WAYS["undoing_stubborn"](lab)
    (entry,) = app.saga.desk()

    lab.advance(100 * 60)

    (later,) = app.saga.desk()
    assert (later.run.id, later.why, later.since) == (handle.id, "undo_failed", entry.since)


def test_pages_hold_everybody_once_also_while_people_work_on_the_desk(lab: Lab) -> None:
    lab.fail("reserve!undo", ConnectionError("no"), times=None)
    handles = []
    for number in range(5):
        handles.append(lab.start(house.DECLINES, f"k{number}"))
        lab.advance(100)

    seen, after = [], None
    while True:
        page = app.saga.desk(limit=2, after=after)
        seen += [entry.run.id for entry in page]
        app.saga.get(seen[-1]).resolve_undo("reserve", outcome="skipped", reason="lost", by="ann")
        if (after := page.next) is None:
            break

    assert seen == [handle.id for handle in handles]


@pytest.mark.parametrize("way", ["undoing_back_off", "undoing_stubborn", "compensation_failed", "parked_undo_failed"])
def test_an_undo_is_retried_at_once_with_arguments_of_a_bound_task_that_got_the_result_first(
    lab: Lab, way: str
) -> None:
    handle = WAYS[way](lab)
    lab.troubles.failing.clear()
    now = lab.now

    handle.retry_undo("reserve", args=["r-2"], kwargs={"note": "by hand"}, by="ann", reason="r")
    lab.drain()

    assert UNDONE == [("r-2", "by hand")]
    assert (handle.refresh().status, lab.now) == ("failed", now)
    (row,) = [row for row in handle.history() if row.action == "retry_undo"]
    assert (row.step, row.detail) == ("reserve!undo", "other arguments, which fit the task")
    assert (row.by, row.reason, row.at) == ("ann", "r", now)


@pytest.mark.parametrize("args", [[], ["r", "n", "one too many"]], ids=["too few", "too many"])
def test_arguments_that_its_task_does_not_take_are_refused_where_they_are_given(lab: Lab, args: list[str]) -> None:
    handle = WAYS["compensation_failed"](lab)
    version = app.saga.engine.run_of(handle.id).state_version

    with pytest.raises(InvalidPayload, match=r"release\(held: str \| None, note: str = \)"):
        handle.retry_undo("reserve", args=args)
    with pytest.raises(InvalidPayload, match="takes args= as a list"):
        handle.retry_undo("reserve", args="r")  # type: ignore[arg-type]

    assert app.saga.engine.run_of(handle.id).state_version == version


def test_arguments_of_a_task_that_is_not_known_here_are_accepted_and_said_to_be_unchecked(lab: Lab) -> None:
    handle = WAYS["compensation_failed"](lab)
    release = app.tasks.pop("desk.release")
    try:
        handle.retry_undo("reserve", args=["a", "b", "c"])
    finally:
        app.tasks["desk.release"] = release

    assert "unchecked: task 'desk.release' is not known" in str(handle.history()[-1].detail)


def test_an_undo_nobody_could_order_is_executed_with_the_result_that_a_person_knows(lab: Lab) -> None:
    handle = WAYS["parked_undo_unknown"](lab)

    with pytest.raises(IllegalTransition, match="nobody knows whether a step has happened"):
        handle.resume()
    handle.retry_undo("charge", args=["c-9"])
    lab.drain()

    assert UNDONE[0] == "c-9"
    assert handle.refresh().status == "failed"


def test_the_undos_of_a_child_are_repaired_at_the_child(lab: Lab) -> None:
    @saga(name="parent", errors=[house.Declined])
    def parent(run: Run) -> None:
        run.child(child)
        raise house.Declined("no")

    @saga(name="child")
    def child(run: Run) -> None:
        run.step(house.reserve.si(), undo=house.release, undo_retry=house._UNDO)

    lab.registry.put(child)
    lab.fail("reserve!undo", ConnectionError("no"), times=None)
    handle = lab.start(parent)
    lab.advance(200)
    of_parent, of_child = sorted(app.saga.desk(), key=lambda entry: entry.run.saga, reverse=True)

    with pytest.raises(IllegalTransition, match=f"it is undone by run {of_child.run.id}"):
        app.saga.get(handle.id).retry_undo("child", args=["x"])

    assert [undo.step for undo in of_parent.undos] == ["child"]
    assert [undo.step for undo in of_child.undos] == ["reserve"]


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"after": "x"}, {"after": 3}, {"saga": 3}], ids=str)
def test_what_cannot_be_asked_of_the_desk_is_refused(lab: Lab, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidPayload, match=r"desk\(\): \w+= .*nothing was read"):
        app.saga.desk(**wrong)  # type: ignore[arg-type]
