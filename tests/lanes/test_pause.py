"""Pauses: when `pause` returns no further step begins; what runs ends, undos go on, and `unpause` lets them go."""

from __future__ import annotations

import pytest

from celery_saga import DefinitionError, Lane, Run
from celery_saga.client.lanes import lane_info
from celery_saga.engine import lanes
from tests.lanes.yard import Yard
from tests.scenarios.house import House


def _two(yard: Yard, **options: object) -> object:
    def two(run: Run, name: str) -> None:
        run.step(yard.do.si(f"{name}1"), undo=yard.undo.si(f"{name}1"))
        run.step(yard.do.si(f"{name}2"))

    return yard.saga(two, **options)


def pause(yard: Yard, name: str) -> None:
    lanes.pause(yard.world, name, by="ann", reason="maintenance")


@pytest.mark.parametrize("row", ["saga:two", "*"])
def test_a_paused_saga_begins_no_further_step_and_ends_what_runs(house: House, yard: Yard, row: str) -> None:
    two = _two(yard)
    a = two.start("a")
    (held,) = yard.claim_all()
    b = two.start("b")
    house.deliver(house.messages.pop())  # b is decided: its step is on its way
    assert yard.steps_in_mail() == [b.id]

    pause(yard, row)

    house.finish(held)
    c = two.start("c")
    house.drain()
    assert yard.done == ["a1"]
    assert [yard.admission(each.id) for each in (a, b, c)] == ["asked"] * 3
    [waits] = a.refresh().waiting_on
    assert "paused by ann since" in waits.name
    house.advance(3600)
    assert yard.done == ["a1"]

    assert lanes.unpause(yard.world, row)
    house.drain()

    assert sorted(yard.done) == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert [yard.admission(each.id) for each in (a, b, c)] == [""] * 3
    assert not lanes.unpause(yard.world, row)


def test_pausing_twice_keeps_who_when_and_why(house: House, yard: Yard) -> None:
    pause(yard, "saga:two")
    before = lane_info(yard.lane("saga:two"))

    house.advance(10)
    lanes.pause(yard.world, "saga:two", by="bob", reason="")

    assert lane_info(yard.lane("saga:two")) == before
    assert (before.kind, before.name, before.paused_by, before.paused_reason) == ("saga", "two", "ann", "maintenance")


def test_undos_signals_and_cancels_go_on_under_a_pause(house: House, yard: Yard) -> None:
    two = _two(yard)
    a = two.start("a")
    (held,) = yard.claim_all()
    pause(yard, "saga:two")
    house.finish(held)

    a.cancel()
    house.drain()

    assert (yard.done, a.refresh().status) == (["a1", "undo a1"], "cancelled")


def test_a_paused_lane_stops_the_run_that_is_in_it_and_others_go_on(house: House, yard: Yard) -> None:
    two = _two(yard, lane="A")
    two.start("a")
    (held,) = yard.claim_all()
    two.start("b")
    two.options(lane="B").start("c")

    pause(yard, "lane:A")
    house.finish(held)
    house.drain()
    assert yard.done == ["a1", "c1", "c2"]

    lanes.unpause(yard.world, "lane:A")
    house.drain()

    assert yard.done[3:] == ["a2", "b1", "b2"]


def test_a_pause_stops_a_run_that_has_its_slot_for_life_and_keeps_it_for_it(house: House, yard: Yard) -> None:
    two = _two(yard, lane=Lane("A", hold="life"))
    two.start("a")
    (held,) = yard.claim_all()
    pause(yard, "lane:A")
    house.finish(held)
    two.options(priority=9).start("b")
    house.drain()
    assert yard.done == ["a1"]

    lanes.unpause(yard.world, "lane:A")
    house.drain()

    assert yard.done == ["a1", "a2", "b1", "b2"]


def test_a_paused_saga_is_paused_as_a_child_too_and_costs_its_parent_nothing(house: House, yard: Yard) -> None:
    two = _two(yard)

    def parent(run: Run, name: str) -> None:
        run.child(two, name)

    pause(yard, "saga:two")
    p = yard.saga(parent).start("p")
    house.drain()
    assert (yard.done, yard.admission(p.id)) == ([], "")

    lanes.unpause(yard.world, "saga:two")
    house.drain()

    assert (yard.done, p.refresh().status) == (["p1", "p2"], "completed")


def test_a_run_that_waits_when_its_saga_is_paused_and_let_go_needs_nothing_afterwards(house: House, yard: Yard) -> None:
    def waiting(run: Run, name: str) -> None:
        run.wait_signal("go")
        run.step(yard.do.si(name))

    a = yard.saga(waiting).start("a")
    house.drain()
    pause(yard, "saga:waiting")
    assert yard.admission(a.id) == "out"
    lanes.unpause(yard.world, "saga:waiting")

    a.signal("go")
    house.drain()

    assert (yard.done, yard.admission(a.id)) == (["a"], "")


def test_parts_of_a_map_stop_too(house: House, yard: Yard) -> None:
    def mapped(run: Run, name: str) -> None:
        run.map(lambda run, item: [run.step(yard.do.si(f"{item}{n}")) for n in range(2)], range(3), concurrency=2)

    a = yard.saga(mapped).start("a")
    running = yard.claim_all()
    assert len(running) == 2
    pause(yard, "saga:mapped")
    house.finish(running[0])
    house.drain()
    assert len(yard.done) == 1
    assert yard.admission(a.id) == "leaving"
    house.finish(running[1])
    house.drain()
    assert (len(yard.done), yard.admission(a.id)) == (2, "asked")

    lanes.unpause(yard.world, "saga:mapped")
    house.drain()

    assert (len(yard.done), a.refresh().status) == (6, "completed")


@pytest.mark.parametrize("given", [{}, {"saga": "a", "lane": "b"}, {"lane": ""}, {"saga": 1}])
def test_one_saga_or_one_lane_is_to_be_named(given: dict[str, str]) -> None:
    with pytest.raises(DefinitionError, match="nothing was changed"):
        lanes.row_name(**{"saga": None, "lane": None, **given})


def test_a_lane_that_is_paused_before_its_first_run_has_the_cap_that_code_says(house: House, yard: Yard) -> None:
    pause(yard, "lane:A")
    pause(yard, "lane:B")
    one = yard.saga()
    for name in ("a1", "a2", "a3"):
        one.options(lane=Lane("A", cap=2)).start(name)
    one.options(lane="B").start("b1")
    one.options(lane="B").start("b2")
    house.drain()
    assert yard.done == []

    lanes.unpause(yard.world, "lane:A")
    lanes.unpause(yard.world, "lane:B")

    assert sorted(each.step.args[0] for each in yard.claim_all()) == ["a1", "a2", "b1"]


def test_a_part_that_was_kept_back_while_another_one_ended_is_not_forgotten(house: House, yard: Yard) -> None:
    def grouped(run: Run, name: str) -> None:
        run.group(yard.do.si(f"{name}1"), yard.do.si(f"{name}2"))

    a = yard.saga(grouped).start("a")
    house.deliver(house.messages.pop(0))
    held = house.claim_next()
    pause(yard, "saga:grouped")
    house.finish(held)
    assert yard.admission(a.id) == "asked"

    lanes.unpause(yard.world, "saga:grouped")
    house.drain()

    assert (sorted(yard.done), a.refresh().status) == (["a1", "a2"], "completed")
