"""Lanes: who is let in, when a slot is given back, and that nothing else is held up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from celery_saga import DefinitionError, InvalidPayload, Lane, RateLimited, Retry, Run, Signal
from celery_saga.engine import lanes
from tests.lanes.yard import Yard
from tests.scenarios.house import House


def test_of_a_lane_one_run_at_a_time_is_active_and_others_go_on(house: House, yard: Yard) -> None:
    """A19."""
    one = yard.saga()
    for name, lane in (("a1", "A"), ("a2", "A"), ("a3", "A"), ("b1", "B")):
        one.options(lane=lane).start(name)

    first = yard.claim_all()

    assert [claimed.step.args[0] for claimed in first] == ["a1", "b1"]
    for claimed in first:
        house.finish(claimed)
    house.drain()
    assert yard.done == ["a1", "b1", "a2", "a3"]


def test_higher_priority_first_and_first_come_first_served_among_equals(house: House, yard: Yard) -> None:
    """A21."""
    one = yard.saga(lane="A")
    for name, priority in (("p0-a", 0), ("p5", 5), ("p10", 10), ("p0-b", 0)):
        one.options(priority=priority).start(name)

    house.drain()

    assert yard.done == ["p10", "p5", "p0-a", "p0-b"]


@pytest.mark.parametrize("priority", [-1, 2_097_152, 1.5, "high", True])
def test_a_priority_that_is_none_is_refused_at_the_start(yard: Yard, priority: object) -> None:
    one = yard.saga()

    with pytest.raises(DefinitionError, match=r"priority= must be a whole number from 0 to 2097151"):
        one.options(priority=priority)  # type: ignore[arg-type]


@pytest.mark.parametrize("priority", [0, 2_097_151])
def test_the_least_and_the_greatest_priority_are_taken(house: House, yard: Yard, priority: int) -> None:
    handle = yard.saga(lane="A").options(priority=priority).start("x")
    house.drain()

    assert (handle.status, house.engine.run_of(handle.id).priority) == ("completed", priority)


def test_caps_stack_of_a_lane_a_saga_and_all(house: House, yard: Yard) -> None:
    """A20."""
    lanes.set_lane(yard.world, "saga:two", lanes.LaneSpec(cap=2))
    two = yard.saga(name="two", lane=Lane("wide", cap=5))
    other = yard.saga(name="other")
    for number in range(4):
        two.start(f"t{number}")
    for number in range(3):
        other.start(f"o{number}")

    assert sorted(each.step.args[0] for each in yard.claim_all()) == ["o0", "o1", "o2", "t0", "t1"]


def test_a_cap_for_all_sagas_counts_over_all(house: House, yard: Yard) -> None:
    lanes.set_lane(yard.world, "*", lanes.LaneSpec(cap=2))
    sagas = [yard.saga(name="one"), yard.saga(name="other")]
    for number in range(3):
        for each in sagas:
            each.start(f"{each.name}{number}")

    most = 0
    while claimed := yard.claim_all():
        most = max(most, len(claimed))
        for each in claimed:
            house.finish(each)

    assert most == 2
    assert len(yard.done) == 6


def test_a_run_that_waits_or_backs_off_gives_its_slot_and_keeps_its_place(house: House, yard: Yard) -> None:
    go = Signal("go")

    def waiting(run: Run, name: str) -> None:
        run.step(yard.do.si(f"{name}1"))
        run.wait_signal(go)
        run.step(yard.do.si(f"{name}2"), retry=Retry(2, delay=10, jitter=False))

    body = yard.saga(waiting, lane="A")
    yard.fail["a2"] = [ValueError("again")]
    a, b, c = [body.start(name) for name in "abc"]
    house.drain()
    assert yard.done == ["a1", "b1", "c1"]
    assert [yard.admission(each.id) for each in (a, b, c)] == ["out"] * 3
    assert yard.lane("lane:A").used == 0

    a.signal(go)
    b.signal(go)
    c.signal(go)
    house.drain()

    assert yard.done[3:] == ["b2", "c2"]
    assert yard.admission(a.id) == "out"
    house.advance(11)
    assert yard.done[5:] == ["a2"]
    assert {yard.status(each.id) for each in (a, b, c)} == {"completed"}


def test_a_back_off_that_ends_while_the_lane_is_full_waits_for_its_turn(house: House, yard: Yard) -> None:
    def backing(run: Run, name: str) -> None:
        run.step(yard.do.si(name), retry=Retry(2, delay=10, jitter=False))

    body = yard.saga(backing, lane="A")
    yard.fail["a"] = [ValueError("again")]
    a = body.start("a")
    house.drain()
    b = body.start("b")
    (held,) = yard.claim_all()
    house.advance(11)

    assert (held.snapshot.run.id, yard.admission(a.id), yard.steps_in_mail()) == (b.id, "asked", [])
    [waits] = a.refresh().waiting_on
    assert (waits.kind.value, waits.name) == ("lane", "lane A: place 1")
    house.finish(held)
    house.drain()
    assert yard.done == ["b", "a"]


def test_a_lane_for_life_is_kept_through_waits_and_parking(house: House, yard: Yard) -> None:
    go = Signal("go")

    def living(run: Run, name: str) -> None:
        run.step(yard.do.si(f"{name}1"))
        run.wait_signal(go)
        run.step(yard.do.si(f"{name}2"))

    body = yard.saga(living, lane=Lane("A", hold="life"))
    a, b = body.start("a"), body.start("b")
    house.drain()
    a.suspend()
    house.drain()
    assert yard.done == ["a1"]

    a.resume()
    a.signal(go)
    house.drain()

    assert yard.done == ["a1", "a2", "b1"]
    assert yard.lane("lane:A").used == 1
    b.cancel()
    house.drain()
    assert yard.lane("lane:A").used == 0


def test_a_parked_run_gives_its_slot_back(house: House, yard: Yard) -> None:
    def parks(run: Run, name: str) -> None:
        run.step(yard.do.si(name))
        if name == "a" and not yard.done.count("b"):
            raise RuntimeError("a bug")

    body = yard.saga(parks, lane="A")
    a = body.start("a")
    body.start("b")
    house.drain()
    assert (yard.done, a.refresh().status) == (["a", "b"], "suspended")

    a.resume()
    house.drain()

    assert a.refresh().status == "completed"


def test_undos_need_no_slot(house: House, yard: Yard) -> None:
    def undone(run: Run, name: str) -> None:
        run.step(yard.do.si(name), undo=yard.undo.si(name))
        run.wait_signal("never")

    a = yard.saga(undone, lane="A").start("a")
    house.drain()
    yard.saga(name="full", lane="A").start("b")
    (held,) = yard.claim_all()

    a.cancel()
    house.drain()

    assert (yard.done, a.refresh().status) == (["a", "undo a"], "cancelled")
    house.finish(held)
    house.drain()


def test_a_queued_run_can_be_cancelled_and_meets_its_deadline(house: House, yard: Yard) -> None:
    one = yard.saga(lane="A")
    one.start("a")
    (held,) = yard.claim_all()
    b, c = one.start("b"), one.options(deadline=60).start("c")
    house.drain()

    b.cancel()
    house.advance(20)
    house.engine.renew(held)
    house.advance(25)
    house.engine.renew(held)
    house.advance(20)

    assert (b.refresh().status, c.refresh().status) == ("cancelled", "failed")
    assert yard.lane("lane:A").queued == 0
    house.finish(held)
    house.drain()
    assert yard.done == ["a"]


def test_a_delayed_start_asks_when_its_time_has_come(house: House, yard: Yard) -> None:
    one = yard.saga(lane="A")
    late = one.options(countdown=100).start("late")
    house.drain()
    assert (yard.admission(late.id), yard.lane_names()) == ("out", [])
    one.start("soon")
    house.drain()

    house.advance(101)

    assert yard.done == ["soon", "late"]


def test_children_are_in_the_slot_of_their_parent_and_detached_runs_are_not(house: House, yard: Yard) -> None:
    child = yard.saga(name="child", lane="A")

    def parent(run: Run, name: str) -> None:
        run.child(child, f"{name} child")
        run.child(child.options(detached=True, key=f"{name} free"), f"{name} free")
        run.step(yard.do.si(name))

    body = yard.saga(parent, lane="A")
    body.start("p")
    body.start("q")
    house.drain()

    assert yard.done == ["p child", "p", "q child", "q", "p free", "q free"]


def test_a_group_is_active_as_long_as_a_part_of_it_is(house: House, yard: Yard) -> None:
    def grouped(run: Run, name: str) -> None:
        run.group(*[yard.do.si(f"{name}{number}") for number in range(3)])

    body = yard.saga(grouped, lane="A")
    body.start("a")
    b = body.start("b")
    parts = yard.claim_all()
    assert [each.step.args[0] for each in parts] == ["a0", "a1", "a2"]

    for each in parts[:2]:
        house.finish(each)
    house.drain()
    assert yard.admission(b.id) == "asked"
    house.finish(parts[2])
    house.drain()

    assert yard.done[3:] == ["b0", "b1", "b2"]


def test_a_part_that_backs_off_while_others_run_keeps_the_slot_and_the_last_one_gives_it(
    house: House, yard: Yard
) -> None:
    def mapped(run: Run, name: str) -> None:
        run.map(
            lambda run, item: run.step(yard.do.si(f"{name}{item}"), retry=Retry(2, delay=10, jitter=False)), range(3)
        )

    body = yard.saga(mapped, lane="A")
    for number in range(3):
        yard.fail[f"a{number}"] = [ValueError("again")]
    a = body.start("a")
    parts = yard.claim_all()
    assert len(parts) == 3

    house.finish(parts[0])
    house.finish(parts[1])
    assert yard.admission(a.id) == "held"
    house.finish(parts[2])
    assert yard.admission(a.id) == "out"

    house.advance(11)
    assert yard.done == ["a0", "a1", "a2"]
    assert a.refresh().status == "completed"


def test_a_lane_by_a_template_and_by_a_function(house: House, yard: Yard) -> None:
    by_template = yard.saga(name="by_template", lane="tenant:{name[0]}")
    by_function = yard.saga(name="by_function", lane=lambda name: f"tenant:{name[0]}")
    for name in ("x1", "y1"):
        by_template.start(name)
        by_function.start(name)

    assert [each.step.args[0] for each in yard.claim_all()] == ["x1", "y1"]
    assert yard.lane("lane:tenant:x").queued == 1
    with pytest.raises(InvalidPayload, match="lane="):
        yard.saga(name="bad", lane=lambda name: "").start("x")
    with pytest.raises(DefinitionError, match="'order' is no parameter"):
        yard.saga(name="worse", lane="tenant:{order.id}")


def test_a_new_cap_comes_over_runs_that_needed_none(house: House, yard: Yard) -> None:
    def waiting(run: Run, name: str) -> None:
        run.wait_signal("go")
        run.step(yard.do.si(name))

    body = yard.saga(waiting)
    runs = [body.start(name) for name in "abc"]
    house.drain()
    assert yard.admission(runs[0].id) == ""

    lanes.set_lane(yard.world, "saga:waiting", lanes.LaneSpec(cap=1))
    for run in runs:
        run.signal("go")

    assert len(yard.claim_all()) == 1
    lanes.set_lane(yard.world, "saga:waiting", lanes.LaneSpec(cap=None))
    assert len(yard.claim_all()) == 2


def test_a_limit_lets_so_many_become_active_in_any_window(house: House, yard: Yard) -> None:
    one = yard.saga(lane=Lane("api", cap=None, limit=2, window=timedelta(seconds=60)))
    for name in "abcde":
        one.start(name)
    house.drain()
    assert sorted(yard.done) == ["a", "b"]

    house.advance(30)
    assert sorted(yard.done) == ["a", "b"]
    house.advance(31)
    assert sorted(yard.done) == ["a", "b", "c", "d"]
    house.advance(61)
    assert sorted(yard.done) == ["a", "b", "c", "d", "e"]


def test_a_limit_counts_when_runs_become_active_also_behind_a_wider_cap(house: House, yard: Yard) -> None:
    lanes.set_lane(yard.world, "*", lanes.LaneSpec(cap=1))
    yard.saga(name="other").start("other")
    (held,) = yard.claim_all()
    one = yard.saga(lane=Lane("api", cap=None, limit=1, window=60))
    one.start("a")
    one.start("b")
    house.drain()

    house.advance(20)
    house.engine.renew(held)
    house.advance(25)
    house.engine.renew(held)
    house.advance(20)
    house.finish(held)
    house.drain()

    assert yard.done == ["other", "a"]  # its token was taken long ago, but it becomes active only now
    house.advance(55)
    assert yard.done == ["other", "a"]
    house.advance(10)
    assert yard.done == ["other", "a", "b"]


def test_rate_limited_puts_the_step_back_and_stops_its_lane(house: House, yard: Yard) -> None:
    one = yard.saga(lane=Lane("api", cap=2))
    yard.fail["a"] = [RateLimited(30)]
    a = one.start("a")
    house.drain()
    one.start("b")
    house.drain()

    [step] = a.steps()
    assert (step.attempt, step.failures, step.stalls, step.maybe) == (0, 0, 0, False)
    assert (yard.done, house.actions(a.id), yard.admission(a.id)) == ([], [], "out")
    assert yard.lane("lane:api").lane.limited_until == house.now + timedelta(seconds=30)

    house.advance(29)
    assert yard.done == []
    house.advance(2)
    assert sorted(yard.done) == ["a", "b"]
    assert a.steps()[0].attempt == 1


def test_rate_limited_without_a_lane_makes_the_step_alone_wait(house: House, yard: Yard) -> None:
    one = yard.saga()
    yard.fail["a"] = [RateLimited(30)]
    one.start("a")
    one.start("b")

    house.drain()
    assert yard.done == ["b"]
    house.advance(31)

    assert yard.done == ["b", "a"]


def test_an_undo_that_is_rate_limited_is_put_back_too(house: House, yard: Yard) -> None:
    @house.task("yard.limited")
    def limited() -> None:
        if yard.fail["undo"]:
            raise yard.fail["undo"].pop()
        yard.done.append("undone")

    def undone(run: Run) -> None:
        run.step(yard.do.si("a"), undo=limited.si())
        run.wait_signal("never")

    yard.fail["undo"] = [RateLimited(30)]
    a = yard.saga(undone, lane="A").start()
    house.drain()
    a.cancel()
    house.drain()
    assert yard.done == ["a"]

    house.advance(31)

    assert (yard.done, a.refresh().status) == (["a", "undone"], "cancelled")
