"""Sending again what a broker has lost: each wake-up that is still waited for, once, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from celery_saga.engine.ports import Message, RunMessage
from celery_saga.testing import Lab
from tests.desk import house
from tests.desk.house import WAYS, app


class Lossy:
    """A publisher that takes so many messages and no more; None: any number."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.taken: list[Message] = []

    def publish(self, messages: Sequence[Message]) -> int:
        count = len(messages) if self.room is None else min(self.room, len(messages))
        self.room = None if self.room is None else self.room - count
        self.taken += messages[:count]
        return count

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return 0


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(app) as opened:
        yield opened


@pytest.fixture
def line(lab: Lab) -> Any:
    """The messages of the laboratory."""
    return app.saga.services.publisher


def _started(lab: Lab, line: Any) -> tuple[str, str]:
    """A run that nobody has looked at, and one whose step nobody has claimed; both messages are lost."""
    queued = lab.start(house.WAITS, "queued")
    line.clear()
    scheduled = lab.start(house.CHARGES, "scheduled")
    line.deliver()  # it is decided, and its first step is sent
    line.clear()
    return queued.id, scheduled.id


def test_what_is_lost_is_told_and_sent_at_once_and_everything_finishes_at_this_instant(lab: Lab, line: Any) -> None:
    queued, scheduled = _started(lab, line)
    before = lab.now

    dry = app.saga.redispatch()
    told = len(line)
    real = app.saga.redispatch(dry_run=False)
    again = app.saga.redispatch(dry_run=False)

    assert (dry.dry_run, told, len(line)) == (True, 0, 2)
    assert dry.wake_ups == real.wake_ups
    assert {(each.run_id, each.step, each.task) for each in real.wake_ups} == {
        (queued, None, None),
        (scheduled, "reserve", "desk.reserve"),
    }
    assert {(each.last_sent_at, each.sends) for each in real.wake_ups} == {(before, 1)}
    assert (again.wake_ups, again.unsent) == ((), 0)
    lab.drain()
    assert (app.saga.get(queued).status, app.saga.get(scheduled).status) == ("waiting", "completed")
    assert lab.now == before


@pytest.mark.parametrize(
    "way",
    [way for way in WAYS if way not in {"queued", "shielded_cancelled"} and not way.startswith("undoing_attempt")],
)
def test_who_waits_for_no_message_is_sent_none(lab: Lab, line: Any, way: str) -> None:
    """Claimed steps, waits, timers, back-offs, parked and ended runs."""
    WAYS[way](lab)
    line.clear()

    assert [(each.step, each.sends) for each in app.saga.redispatch(dry_run=False).wake_ups] == []
    assert len(line) == 0


def test_the_sweeper_leaves_what_was_redispatched_alone_for_a_lease(lab: Lab, line: Any) -> None:
    _started(lab, line)
    lab._clock.now = lab._clock.later(29)
    app.saga.redispatch(dry_run=False)
    line.clear()

    lab._clock.now = lab._clock.later(29)
    app.saga.engine.sweep()
    early = len(line)
    lab._clock.now = lab._clock.later(2)
    app.saga.engine.sweep()

    assert (early, len(line)) == (0, 2)


def test_what_was_redispatched_is_sent_once_more_after_a_lease_or_when_asked_for(lab: Lab, line: Any) -> None:
    _started(lab, line)
    counts = []

    for seconds, options in ((1, {}), (1, {}), (1, {"again": True}), (31, {})):
        lab._clock.now = lab._clock.later(seconds)
        counts.append(len(app.saga.redispatch(dry_run=False, **options).wake_ups))  # type: ignore[arg-type]

    assert counts == [2, 0, 2, 2]


def test_a_step_that_was_sent_anew_since_is_no_redispatched_one(lab: Lab, line: Any) -> None:
    lab.fail("charge", house.Declined("first"))
    handle = lab.start(house.CHARGES, "k")
    lab.drain()
    lab._clock.now = lab._clock.later(60)
    app.saga.engine.sweep()  # its back-off is over, and its wake-up is sent
    line.clear()

    first = app.saga.redispatch(dry_run=False).wake_ups
    lab.drain()

    assert [(each.run_id, each.step) for each in first] == [(handle.id, "charge")]
    assert handle.status == "completed"


def test_a_timer_and_the_run_that_it_wakes_are_one_message(lab: Lab, line: Any) -> None:
    handle = WAYS["waiting_timer"](lab)
    lab._clock.now = lab._clock.later(house.HOUR_S + 1)
    app.saga.engine.sweep()
    handle.signal("approval")  # wakes the run besides
    line.clear()

    result = app.saga.redispatch(dry_run=False)

    assert len(line) == len(result.wake_ups) == 1
    lab.drain()
    assert handle.status == "completed"


def test_a_run_that_queues_for_a_lane_or_is_paused_waits_for_no_message(lab: Lab, line: Any) -> None:
    app.saga.pause(saga="pivots", reason="holidays", by="ann")
    handle = lab.start(house.PIVOTS, "k")  # it has a deadline, which wakes it all the same
    lab.drain()
    assert app.saga.engine.run_of(handle.id).wake_at is not None

    assert app.saga.redispatch(dry_run=False).wake_ups == ()


def test_only_the_wake_ups_of_a_saga_are_sent_where_one_is_named(lab: Lab, line: Any) -> None:
    queued, _ = _started(lab, line)

    result = app.saga.redispatch(dry_run=False, saga="waits")

    assert [each.run_id for each in result.wake_ups] == [queued]
    assert app.saga.redispatch(saga="nobody").wake_ups == ()


def test_what_the_broker_does_not_take_is_left_to_the_sweeper_as_due(
    lab: Lab, line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        lab.start(house.WAITS, f"k{number}")
    line.clear()
    lossy = Lossy(room=1)
    world = app.saga.engine.world
    monkeypatch.setitem(world.__dict__, "publisher", lossy)

    short = app.saga.redispatch(dry_run=False)
    lossy.room = None
    app.saga.engine.sweep()

    assert (len(short.wake_ups), short.unsent) == (1, 2)
    assert len({message.run.id for message in lossy.taken if isinstance(message, RunMessage)}) == 3
    assert len(lossy.taken) == 3


def test_many_are_sent_page_by_page_each_once(lab: Lab, line: Any) -> None:
    ids = {lab.start(house.WAITS, f"k{number}").id for number in range(450)}
    line.clear()

    result = app.saga.redispatch(dry_run=False)

    assert len(result.wake_ups) == len(line) == 450
    assert {each.run_id for each in result.wake_ups} == ids
