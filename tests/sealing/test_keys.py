"""Keys that are rotated under runs in flight, that are lost, and that come back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import IdempotencyConflict, PayloadUnreadable, Run, saga
from celery_saga.client.desk import desk
from celery_saga.client.documents import run_document, step_document
from celery_saga.core.ports import RunFilter
from celery_saga.engine.ports import RunMessage
from celery_saga.store import Codec
from celery_saga.testing import Lab
from tests.sealing.keys import FIRST, SECOND, THIRD, Keys, at_rest, lab_with, store_of


class Works:
    """A laboratory with a codec whose keys the test changes, and sagas to play with."""

    def __init__(self, lab: Lab, keys: Keys) -> None:
        self.lab = lab
        self.keys = keys

        @lab.app.task(name="keys.double", shared=False)
        def double(number: int) -> int:
            return 2 * number

        @lab.app.task(name="keys.halve", shared=False)
        def halve(number: int) -> None:
            pass

        self.double, self.halve = double, halve

        @saga(name="sealed_waits", key="{name}")
        def waits(run: Run, name: str, number: int) -> list[int]:
            first = run.step(double.si(number), undo=halve)
            second = run.wait_signal("go", type=int)
            return [first, second, *run.map(double, [first, second])]

        @saga(name="nested")
        def nested(run: Run, number: int) -> list[int]:
            return run.child(waits, f"child{number}", number)

        self.waits, self.nested = waits, nested

    def park(self, run: Any) -> None:
        """Have a worker come upon a run that it cannot read."""
        self.lab.engine.coordinate(run.id)

    def start(self, body: Any, *args: Any) -> Any:
        run = self.lab.start(body, *args)
        self.lab.drain()
        return run


@pytest.fixture
def works() -> Iterator[Works]:
    keys = Keys(FIRST)
    with lab_with(codec=keys) as lab:
        yield Works(lab, keys)


def test_keys_are_rotated_under_runs_in_flight(works: Works) -> None:
    """The determinism check compares what the first key has sealed with what the second will."""
    run, child = works.start(works.waits, "a", 1), works.start(works.nested, 5)

    works.keys.use(SECOND, FIRST)
    run.signal("go", 7)
    works.lab.get(child.steps()[0].task_id or "").signal("go", 6)
    works.lab.drain()

    assert run.refresh().wait(0) == [2, 7, 4, 14]
    assert child.refresh().wait(0) == [10, 6, 20, 12]


def test_a_key_of_a_run_is_compared_across_rotations(works: Works) -> None:
    run = works.start(works.waits, "a", 1)
    works.keys.use(SECOND, FIRST)

    assert works.lab.start(works.waits, "a", 1).id == run.id
    with pytest.raises(IdempotencyConflict):
        works.lab.start(works.waits, "a", 2)


def test_equal_values_are_not_equal_at_rest(works: Works) -> None:
    for name in "ab":
        works.start(works.waits, name, 1)

    digests = at_rest(store_of(works.lab))["saga_run.input_digest"]
    assert len(set(digests)) == len(digests) == 2


def test_a_lost_key_parks_the_run_and_nothing_else(works: Works, caplog: pytest.LogCaptureFixture) -> None:
    lost = works.start(works.waits, "lost", 1)
    works.keys.use(SECOND)
    other = works.start(works.waits, "other", 3)

    with caplog.at_level(logging.ERROR):
        works.park(lost)
        other.signal("go", 4)
        works.lab.drain()

    assert (lost.refresh().status, store_of(works.lab).load(lost.id).snapshot.run.reason) == ("suspended", "unreadable")
    assert "unreadable" in caplog.text
    (entry,) = desk(store_of(works.lab), saga=None, limit=9, after=None)
    assert (entry.run.id, entry.why) == (lost.id, "unreadable")
    assert "all else is refused but cancel(compensate=False)" in entry.sentence
    assert other.refresh().wait(0) == [6, 4, 12, 8]
    assert store_of(works.lab).without_wake_up() == []


def test_a_run_whose_key_is_back_goes_on_where_it_was(works: Works) -> None:
    lost = works.start(works.waits, "lost", 1)
    works.keys.use(SECOND)
    works.park(lost)
    with pytest.raises(PayloadUnreadable, match="resume"):
        lost.resume()

    works.keys.use(SECOND, FIRST)
    lost.signal("go", 1)
    lost.resume(reason="the key is back")
    works.lab.drain()

    assert lost.refresh().wait(0) == [2, 1, 4, 2]


def test_what_a_process_with_a_wrong_key_has_parked_goes_on_under_the_right_one(works: Works) -> None:
    """What it writes of that must not be sealed with its key."""
    run = works.start(works.waits, "lost", 1)
    works.keys.use(THIRD)
    works.lab._line.publish([RunMessage(store_of(works.lab).load(run.id).snapshot.run)])
    works.lab.advance(100)
    store_of(works.lab).without_wake_up()
    works.lab.engine.coordinate(run.id)
    assert run.refresh().status == "suspended"

    works.keys.use(FIRST)
    assert "InvalidToken" in str(run.error)
    assert "InvalidToken" in str(run.history()[-1].detail)
    run.resume()
    run.signal("go", 1)
    works.lab.drain()

    assert run.refresh().wait(0) == [2, 1, 4, 2]


def test_a_run_whose_key_is_lost_for_good_can_be_cancelled_without_undos(works: Works) -> None:
    run, parent = works.start(works.waits, "lost", 1), works.start(works.nested, 2)
    works.keys.use(SECOND)
    with pytest.raises(PayloadUnreadable):
        run.cancel()

    assert run.cancel(compensate=False) == {"cancelled": True, "status": "cancelled"}
    with pytest.raises(PayloadUnreadable):
        parent.cancel(compensate=False)
    works.lab.advance(2000)

    assert run.refresh().status == "cancelled"
    assert parent.refresh().status == "waiting"  # those who could not read it have left it as it was
    assert [call.name for call in works.lab.calls] == ["double", "double"]


@pytest.mark.parametrize("status", ["scheduled", "running"])
def test_a_step_under_way_when_the_key_is_lost_is_done_after_it_is_back(works: Works, status: str) -> None:
    run = works.lab.start(works.waits, "a", 1)
    works.lab._one(works.lab._line.deliver)  # the run is decided, its step sent
    if status == "running":
        works.lab.crash(before="double")
        works.lab._one(works.lab._line.deliver)
    works.keys.use(SECOND)
    works.lab.advance(200)

    found = store_of(works.lab).load(run.id)
    assert found is not None
    assert (found.snapshot.run.status, found.snapshot.run.reason) == ("suspended", "unreadable")
    works.keys.use(SECOND, FIRST)
    run.resume()
    run.signal("go", 1)
    works.lab.advance(200)
    assert run.refresh().wait(0) == [2, 1, 4, 2]


def test_undos_wait_for_the_key_and_are_then_done(works: Works) -> None:
    run = works.start(works.waits, "a", 1)
    run.cancel()
    works.keys.use(SECOND)
    works.lab.drain()
    assert run.refresh().status == "suspended"

    works.keys.use(FIRST)
    run.resume()
    works.lab.drain()

    assert run.refresh().status == "cancelled"
    assert [call.name for call in works.lab.calls] == ["double", "halve"]


def test_a_parent_that_cannot_be_read_is_parked_and_its_child_goes_on_with_it(works: Works) -> None:
    parent = works.start(works.nested, 5)
    child = works.lab.get(parent.steps()[0].task_id or "")
    engine = store_of(works.lab).own_sessions.engine
    with engine.begin() as connection:
        (kept,) = connection.exec_driver_sql("SELECT input_text FROM saga_run WHERE parent_id IS NULL").scalars()
        connection.exec_driver_sql("UPDATE saga_run SET input_text = '!s1:gAAAA' WHERE parent_id IS NULL")

    child.signal("go", 6)
    works.lab.advance(120)

    assert parent.refresh().status == "suspended"
    assert child.refresh().status != "suspended"
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE saga_run SET input_text = ? WHERE parent_id IS NULL", (kept,))
    parent.resume()
    works.lab.advance(2000)
    assert parent.refresh().wait(0) == [10, 6, 20, 12]


def test_lists_and_documents_show_what_they_can(works: Works) -> None:
    run = works.start(works.waits, "a", 1)
    works.keys.use(SECOND)
    works.park(run)

    store = store_of(works.lab)
    listed = [run_document(each) for each in store.runs(RunFilter())]
    assert [each["key"] for each in listed] == ["a"]
    assert listed[0]["error"]["code"] == "PAYLOAD_UNREADABLE"
    steps = [step_document(each) for each in store.steps(run.id)]
    assert steps[0]["result"] == {"unreadable": "(saga_codec cannot read it: InvalidToken)"}
    shown = run_document(store.load(run.id).snapshot.run)
    assert "unreadable" in shown["input"]
    with pytest.raises(PayloadUnreadable):
        run.steps()[0].result  # noqa: B018


def test_a_start_is_refused_where_the_input_under_its_key_cannot_be_compared(works: Works) -> None:
    works.start(works.waits, "a", 1)
    works.keys.use(SECOND)

    with pytest.raises(PayloadUnreadable):
        works.lab.start(works.waits, "a", 1)


def test_a_damaged_text_parks_the_run(works: Works) -> None:
    run = works.start(works.waits, "a", 1)
    store = store_of(works.lab)
    with store.own_sessions.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE saga_step SET result_text = '!s1:gAAAA' WHERE result_text IS NOT NULL")

    with pytest.raises(PayloadUnreadable):
        run.signal("go", 1)
    assert run.refresh().status == "waiting"
    works.park(run)

    assert run.refresh().status == "suspended"
    assert "InvalidToken" in [row.detail for row in run.history()][-1]


def test_texts_from_before_the_codec_can_still_be_read() -> None:
    codec = Keys(FIRST)
    assert isinstance(codec, Codec)
    with lab_with() as lab:
        works = Works(lab, codec)
        run = works.start(works.waits, "a", 1)
        vault = store_of(lab).vault
        vault.codec = codec
        run.signal("go", 7)
        lab.drain()

        assert run.refresh().wait(0) == [2, 7, 4, 14]
        vault.codec = None
        with pytest.raises(PayloadUnreadable, match="none is set here"):
            lab.get(run.id).result  # noqa: B018


def test_a_note_that_looks_sealed_comes_back_as_it_was() -> None:
    with lab_with() as lab:
        works = Works(lab, Keys(FIRST))
        run = works.start(works.waits, "a", 1)
        run.suspend(reason="!s1: is how sealed texts begin")

        assert [row.reason for row in run.history()][-1] == "!s1: is how sealed texts begin"
