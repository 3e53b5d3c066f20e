"""What is written into the outbox with the transitions of runs, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from celery_saga import CelerySaga, DefinitionError
from celery_saga.core.lifecycle import EVENTS, Announcement, Purpose
from tests.announcing.house import House, house_with


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_with(f"sqlite:///{tmp_path}/sagas.db", saga_events=True) as found:
        yield found


def outbox(house: House, purpose: Purpose = Purpose.EVENT) -> list[Announcement]:
    return house.saga.store.outbox.next(purpose, limit=1000)


def events(house: House) -> list[str]:
    return [each.event for each in outbox(house)]


def bodies(house: House) -> list[dict[str, Any]]:
    return [json.loads(each.body_text) for each in outbox(house)]


def test_a_run_that_completes_is_started_and_completed(house: House) -> None:
    run = house.order.options(key="o1").start("o1")

    first, last = bodies(house)
    assert (first["event"], first["status"], last["event"], last["status"]) == (
        *("started", "queued", "completed", "completed"),
    )
    assert first["run_id"] == last["run_id"] == run.id
    assert first["key"] == "o1" and first["saga"] == "order" and first["version"] == 1


def test_a_run_that_fails_tells_that_its_undos_ran_and_of_what_class_the_error_is(house: House) -> None:
    house.order.start("none")

    assert events(house) == ["started", "compensating", "failed"]
    last = bodies(house)[-1]
    assert last["error"].endswith("OutOfStock") and last["error_step"] == "ship"
    assert "none" not in last.values()


def test_a_signal_is_told_once_a_wait_has_taken_it(house: House) -> None:
    run = house.approval.start()
    before = events(house)
    run.signal("go", "secret word", id="the first, with blanks")

    assert before == ["started"]
    assert events(house) == ["started", "signal", "completed"]
    assert bodies(house)[1]["signal"] == {"name": "go", "id": "the first, with blanks"}
    assert "secret" not in " ".join(each.body_text for each in outbox(house))


def test_parking_resuming_cancelling_and_starting_over_are_told(house: House) -> None:
    parked = house.buggy.start()
    parked.resume(by="ann", reason="fixed?")
    cancelled = house.approval.start()
    cancelled.cancel()
    failed = house.order.start("none")
    failed.retry()

    of = {name: [each.event for each in outbox(house) if each.run_id == run.id] for name, run in (
        ("parked", parked), ("cancelled", cancelled), ("failed", failed),
    )}  # fmt: skip
    assert of["parked"] == ["started", "suspended", "resumed", "suspended"]
    assert of["cancelled"] == ["started", "cancelled"]
    assert of["failed"] == ["started", "compensating", "failed", "restarted", "compensating", "failed"]
    reasons = [json.loads(each.body_text).get("reason") for each in outbox(house) if each.event == "suspended"]
    assert reasons == ["body_error", "body_error"]


def test_each_event_has_an_id_of_its_own_and_a_place_behind_those_before_it(house: House) -> None:
    house.order.start("none")
    house.approval.start().signal("go", "x")

    found = outbox(house)
    assert len({each.event_id for each in found}) == len(found)
    assert [each.id for each in found] == sorted(each.id for each in found)


def test_what_nobody_wants_is_not_written_and_takes_no_statement(tmp_path: Path) -> None:
    with house_with(f"sqlite:///{tmp_path}/off.db") as off:
        labels: list[str] = []
        off.saga.store.trace = labels.append
        off.order.start("o1")

        assert off.saga.store.outbox.wanted is None
        assert not [label for label in labels if "outbox" in label]
        assert events(off) == []


def test_only_the_events_that_are_named_are_written(tmp_path: Path) -> None:
    with house_with(f"sqlite:///{tmp_path}/some.db", saga_events="failed,cancelled") as some:
        some.order.start("none")
        some.order.start("o1")

        assert events(some) == ["failed"]


def test_an_event_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(DefinitionError, match=r"saga_events: there is no event 'finished'; there are started, signal"):
        CelerySaga(events=["completed", "finished"])

    assert CelerySaga(events=True)._options["events"] == frozenset(EVENTS)
    assert CelerySaga(events="no")._options["events"] == frozenset()


def test_events_commit_and_roll_back_with_a_callers_transaction(house: House) -> None:
    engine = house.saga.store.sessions.engine
    with engine.connect() as connection:
        house.order.options(connection=connection).start("o1")
        connection.rollback()
    rolled_back = events(house)
    with engine.connect() as connection:
        house.order.options(connection=connection).start("o2")
        connection.commit()

    assert rolled_back == []
    assert events(house)[0] == "started"


def test_a_child_is_told_as_a_run_of_its_own(house: House) -> None:
    from celery_saga import Run, saga

    @saga(name="mother")
    def mother(run: Run) -> str:
        return run.child(house.order, "o1")

    run = mother.start()

    assert run.result == "s-o1"
    told = [(body["event"], body["saga"], body.get("parent_id")) for body in bodies(house)]
    assert told == [
        ("started", "mother", None),
        ("started", "order", run.id),
        ("completed", "order", run.id),
        ("completed", "mother", None),
    ]
