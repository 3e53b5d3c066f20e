"""Clients with a wrong key: their verbs raise, and nothing is written of runs that others can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_saga import PayloadUnreadable
from celery_saga.engine.callers import CallersEngine
from tests.sealing.keys import FIRST, SECOND, Keys, at_rest, lab_with, store_of
from tests.sealing.test_keys import Works


@pytest.fixture
def works() -> Iterator[Works]:
    keys = Keys(FIRST)
    with lab_with(codec=keys) as lab:
        yield Works(lab, keys)


VERBS: dict[str, Callable[[Any], object]] = {
    "cancel": lambda run: run.cancel(),
    "suspend": lambda run: run.suspend(),
    "resume": lambda run: run.resume(),
    "compensate": lambda run: run.compensate(),
    "retry": lambda run: run.retry(),
    "skip": lambda run: run.skip("double"),
    "retry_undo": lambda run: run.retry_undo("double"),
    "resolve_undo": lambda run: run.resolve_undo("double"),
    "signal": lambda run: run.signal("go", 7),
    "signal error": lambda run: run.signal("go", error=ValueError("no")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_with_a_wrong_key_raises_and_writes_nothing(works: Works, verb: str) -> None:
    run = works.start(works.waits, "a", 1)
    before = at_rest(store_of(works.lab))

    works.keys.use(SECOND)
    with pytest.raises(PayloadUnreadable, match="Let saga_codec know its key"):
        VERBS[verb](run)

    assert at_rest(store_of(works.lab)) == before
    works.keys.use(FIRST)
    assert run.signal("go", 7) == "delivered"
    works.lab.drain()
    assert run.refresh().wait(0) == [2, 7, 4, 14]


def test_a_refused_cancel_leaves_a_parent_and_its_child_as_they_were(works: Works) -> None:
    parent = works.start(works.nested, 5)
    before = at_rest(store_of(works.lab))

    works.keys.use(SECOND)
    for compensate in (True, False):
        with pytest.raises(PayloadUnreadable):
            parent.cancel(compensate=compensate)

    assert at_rest(store_of(works.lab)) == before


@pytest.mark.parametrize("verb", ["signal", "cancel", "cancel without undos"])
def test_a_callers_transaction_with_a_wrong_key_holds_nothing(works: Works, verb: str) -> None:
    """What it would write is sealed with its key, and would park the run where others read it."""
    run = works.start(works.waits, "a", 1)
    before = at_rest(store_of(works.lab))

    works.keys.use(SECOND)
    with store_of(works.lab).own_sessions.engine.begin() as connection:
        callers = CallersEngine(works.lab.engine, connection)
        with pytest.raises(PayloadUnreadable):
            if verb == "signal":
                callers.signal(run.id, "go", value_text="7")
            else:
                callers.cancel(run.id, compensate=verb == "cancel")

    assert at_rest(store_of(works.lab)) == before


def test_a_paused_lane_takes_in_by_a_sweeper_what_its_pauser_cannot_read(works: Works) -> None:
    run = works.start(works.waits, "a", 1)

    works.keys.use(SECOND)
    works.lab.app.saga.pause(saga="sealed_waits", reason="a wrong key")
    assert run.refresh().status == "waiting"
    assert _is_enlisting(works)

    works.keys.use(FIRST)
    works.lab.advance(60)
    assert not _is_enlisting(works)
    run.signal("go", 7)
    works.lab.drain()
    assert [call.name for call in works.lab.calls] == ["double"]
    works.lab.app.saga.unpause(saga="sealed_waits")
    works.lab.advance(60)
    assert run.refresh().wait(0) == [2, 7, 4, 14]


def _is_enlisting(works: Works) -> bool:
    (load,) = store_of(works.lab).lanes(["saga:sealed_waits"])
    return load.lane.enlisting


def test_a_worker_with_a_wrong_key_still_parks(works: Works) -> None:
    run = works.start(works.waits, "a", 1)
    works.keys.use(SECOND)
    works.park(run)
    assert run.refresh().status == "suspended"


def test_of_an_unreadable_run_the_desk_offers_what_is_not_refused(works: Works) -> None:
    run = works.start(works.waits, "a", 1)
    works.keys.use(SECOND)
    works.park(run)
    desk = works.lab.app.saga.desk

    [entry] = desk()
    assert (entry.why, entry.verbs, [undo.verbs for undo in entry.undos]) == ("unreadable", ("resume",), [])

    works.keys.use(FIRST)
    run.resume()
    works.lab.drain()
    assert list(desk()) == []
