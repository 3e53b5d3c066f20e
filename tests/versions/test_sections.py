"""Changes in bodies with parts, scopes and races: parked as foreseen, patched in each part and scope for itself."""

from __future__ import annotations

from typing import Any

import pytest

from celery_saga import Run, Saga, Signal, saga, step
from celery_saga.engine.previewing import preview
from tests.scenarios.house import House

GO = Signal("go", str)


class Steps:
    """Tasks that note what they did."""

    def __init__(self, house: House) -> None:
        self.calls: list[str] = []

        def make(name: str) -> Any:
            @house.task(f"sections.{name}")
            def task(*args: Any) -> str:
                if args and args[0] == "fail":
                    raise LookupError("no")
                self.calls.append(name)
                return name

            return task

        self.a, self.b, self.c, self.x, self.undo = (make(name) for name in ("a", "b", "c", "x", "undo"))


@pytest.fixture
def t(house: House) -> Steps:
    return Steps(house)


def deploy(house: House, body: Any, t: Steps) -> Saga[[], Any]:
    @saga(name="sections", errors=[LookupError])
    def sections(run: Run) -> Any:
        return body(run, t)

    house.registry._sagas.clear()
    house.registry.add(sections)
    return sections


def foreseen(house: House) -> list[str]:
    return [each.reason for each in preview(house.store, house.registry, resend_s=30.0)]


# -- parts -----------------------------------------------------------------------------------------------------------
def parts(run: Run, t: Steps) -> Any:
    def left(run: Run) -> Any:
        run.step(t.a.si())
        run.wait_signal(GO)
        return run.step(t.b.si())

    return run.group({"left": left, "right": t.c.si()})


def parts_inserted(run: Run, t: Steps) -> Any:
    def left(run: Run) -> Any:
        run.step(t.x.si())
        run.step(t.a.si())
        run.wait_signal(GO)
        return run.step(t.b.si())

    return run.group({"left": left, "right": t.c.si()})


def parts_behind(run: Run, t: Steps) -> Any:
    def left(run: Run) -> list[str]:
        run.step(t.a.si())
        run.wait_signal(GO)
        return [run.step(t.x.si()), run.step(t.b.si())]

    return run.group({"left": left, "right": t.c.si()})


def parts_wider(run: Run, t: Steps) -> Any:
    return run.group(t.a.si(), t.b.si(), t.c.si())


def parts_in_front(run: Run, t: Steps) -> Any:
    run.step(t.x.si())
    return parts(run, t)


def parts_patched(run: Run, t: Steps) -> Any:
    def left(run: Run) -> Any:
        first = run.step(t.x.si()) if run.patched("in-front") else "no x"
        run.step(t.a.si())
        run.wait_signal(GO)
        last = run.step(t.x.si()) if run.patched("behind") else "no x"
        return [first, last]

    early = run.patched("before-the-group")
    done = run.group({"left": left, "right": t.c.si()})
    return [early, done["left"], run.patched("after-the-group")]


def parts_other(run: Run, t: Steps) -> Any:
    def left(run: Run) -> Any:
        run.step(t.a.si())
        run.wait_signal(GO)
        return run.step(t.b.si())

    return run.group({"left": left, "right": t.c.si("other")})


CHANGED_PARTS = [parts_inserted, parts_wider, parts_other, parts_in_front]


@pytest.mark.parametrize("body", CHANGED_PARTS, ids=lambda each: each.__name__)
def test_a_change_in_front_of_a_part_parks_the_run_as_foreseen(house: House, t: Steps, body: Any) -> None:
    handle = deploy(house, parts, t).start()
    house.drain()
    deploy(house, body, t)

    before = foreseen(house)
    handle.signal(GO, "on")
    house.drain()

    assert before == ["non_determinism"]
    run = house.engine.run_of(handle.id)
    assert (run.status, run.reason) == ("suspended", "non_determinism")
    assert "x" not in t.calls
    deploy(house, parts, t)
    assert foreseen(house) == []
    handle.resume()
    house.drain()
    assert handle.wait(1) == {"left": "b", "right": "c"}


def test_a_change_behind_a_part_is_taken_up(house: House, t: Steps) -> None:
    handle = deploy(house, parts, t).start()
    house.drain()
    deploy(house, parts_behind, t)

    assert foreseen(house) == []
    handle.signal(GO, "on")
    house.drain()

    assert handle.wait(1) == {"left": ["x", "b"], "right": "c"}


def test_a_part_is_patched_by_where_it_stands_itself(house: House, t: Steps) -> None:
    old = deploy(house, parts, t).start()
    house.drain()
    new = deploy(house, parts_patched, t).start()
    house.drain()
    assert foreseen(house) == []

    for handle in (old, new):
        handle.signal(GO, "on")
        house.drain()
        assert foreseen(house) == []

    assert old.wait(1) == [False, ["no x", "x"], True]
    assert new.wait(1) == [True, ["x", "x"], True]


def test_an_item_of_a_map_that_has_not_begun_takes_the_change(house: House, t: Steps) -> None:
    def items(run: Run, t: Steps) -> Any:
        def one(run: Run, item: int) -> Any:
            run.step(t.a.si(item))
            return run.wait_signal(f"go-{item}")

        return run.map(one, [0, 1, 2], concurrency=1)

    def patched(run: Run, t: Steps) -> Any:
        def one(run: Run, item: int) -> Any:
            way = run.patched("x")
            run.step(t.a.si(item))
            run.wait_signal(f"go-{item}")
            return way

        return [*run.map(one, [0, 1, 2], concurrency=1)]

    handle = deploy(house, items, t).start()
    house.drain()
    handle.signal("go-0", 0)
    house.drain()
    deploy(house, patched, t)
    assert foreseen(house) == []

    for item in (1, 2):
        handle.signal(f"go-{item}", item)
        house.drain()

    assert handle.wait(1) == [0, False, True]


def test_a_run_that_starts_over_behind_a_map_is_replayed_with_all_its_records(house: House, t: Steps) -> None:
    def body(run: Run, t: Steps) -> Any:
        mapped = [*run.map(t.a, [1, 2, 3])]
        run.step(t.b.si(), undo=t.undo.si())
        run.wait_signal(GO)
        return [*mapped, run.step(t.c.si("fail"))]

    def swapped(run: Run, t: Steps) -> Any:
        run.step(t.b.si(), undo=t.undo.si())
        return run.map(t.a, [1, 2, 3])

    handle = deploy(house, body, t).start()
    house.drain()
    handle.cancel()
    house.drain()
    handle.retry(from_step="b")
    house.drain()
    handle.refresh().suspend()

    assert foreseen(house) == []
    deploy(house, swapped, t)
    assert foreseen(house) == ["non_determinism"]
    handle.resume()
    house.drain()
    assert house.engine.run_of(handle.id).reason == "non_determinism"


# -- scopes ----------------------------------------------------------------------------------------------------------
def scoped(run: Run, t: Steps) -> Any:
    with run.scope("ship"):
        run.step(t.a.si())
        run.wait_signal(GO)
        run.step(t.b.si())
    return run.step(t.c.si())


def scoped_patched(run: Run, t: Steps) -> Any:
    found = [run.patched("outside")]
    with run.scope("ship"):
        found.append(run.patched("outside"))
        run.step(t.a.si())
        run.wait_signal(GO)
        found.append(run.patched("inside"))
        run.step(t.b.si())
    found.append(run.patched("after"))
    run.step(t.c.si())
    return found


def test_a_scope_is_patched_by_where_the_run_stands_in_it(house: House, t: Steps) -> None:
    old = deploy(house, scoped, t).start()
    house.drain()
    new = deploy(house, scoped_patched, t).start()
    house.drain()
    assert foreseen(house) == []
    for handle in (old, new):
        handle.signal(GO, "on")
    house.drain()

    assert old.wait(1) == [False, False, True, True]
    assert new.wait(1) == [True, True, True, True]


def test_a_scope_that_was_left_by_an_error_has_been_passed(house: House, t: Steps) -> None:
    def failing(run: Run, t: Steps) -> Any:
        try:
            with run.scope("ship"):
                run.step(t.a.si(), undo=t.undo.si())
                run.step(t.b.si("fail"))
        except LookupError:
            pass
        run.wait_signal(GO)

    def patched(run: Run, t: Steps) -> Any:
        found = []
        try:
            with run.scope("ship"):
                run.step(t.a.si(), undo=t.undo.si())
                try:
                    run.step(t.b.si("fail"))
                except LookupError:
                    found.append(run.patched("in-the-scope"))
                    raise
        except LookupError:
            found.append(run.patched("behind-the-scope"))
        run.wait_signal(GO)
        return found

    old = deploy(house, failing, t).start()
    house.drain()
    new = deploy(house, patched, t).start()
    house.drain()
    assert foreseen(house) == []
    for handle in (old, new):
        handle.signal(GO, "on")
    house.drain()

    assert old.wait(1) == [False, False]
    assert new.wait(1) == [True, True]
    assert t.calls.count("undo") == 2


def test_a_change_in_front_of_a_scope_parks_the_run_as_foreseen(house: House, t: Steps) -> None:
    def without(run: Run, t: Steps) -> Any:
        run.step(t.a.si())
        run.wait_signal(GO)

    handle = deploy(house, scoped, t).start()
    house.drain()
    deploy(house, without, t)

    assert foreseen(house) == ["non_determinism"]
    handle.signal(GO, "on")
    house.drain()
    error = house.engine.run_of(handle.id).error
    assert error is not None and "'ship'" in error.message and "'a'" in error.message


# -- continuing ------------------------------------------------------------------------------------------------------
def test_the_loser_of_a_race_ends_and_is_undone_before_the_run_begins_again(house: House, t: Steps) -> None:
    @saga(name="sections_race")
    def racing(run: Run, turn: int) -> int:
        if turn == 1:
            run.race(fast=t.a.si(), slow=step(t.b.si(), undo=t.undo.si()))
            run.continue_as_new(turn + 1)
        return turn

    house.add(racing)
    handle = racing.start(1)
    house.engine.coordinate(handle.id)
    house.messages.pop(0)
    fast, slow = house.claim_next(), house.claim_next()
    house.finish(fast)
    house.drain()
    assert house.engine.run_of(handle.id).generation == 1

    house.finish(slow)
    house.drain()
    house.advance(5)

    assert handle.wait(1) == 2
    assert t.calls == ["a", "b", "undo"]
    assert house.engine.run_of(handle.id).generation == 2


@pytest.mark.parametrize("where", ["scope", "part", "shield"])
def test_inside_a_section_it_is_refused(house: House, t: Steps, where: str) -> None:
    @saga(name=f"sections_inside_{where}")
    def inside(run: Run) -> None:
        if where == "scope":
            with run.scope("ship"):
                run.continue_as_new()
        elif where == "shield":
            with run.shield():
                run.continue_as_new()
        else:
            run.group([lambda run: run.continue_as_new()])

    house.add(inside)
    handle = inside.start()
    house.drain()

    run = house.engine.run_of(handle.id)
    assert (run.status, run.reason, run.generation) == ("suspended", "body_error", 1)
    assert run.error is not None and "run.continue_as_new() was called inside" in run.error.message


def test_a_body_that_now_continues_in_front_of_its_parts_parks(house: House, t: Steps) -> None:
    def continuing(run: Run, t: Steps) -> Any:
        run.continue_as_new()

    handle = deploy(house, parts, t).start()
    house.drain()
    deploy(house, continuing, t)

    assert foreseen(house) == ["non_determinism"]
    handle.signal(GO, "on")
    house.drain()
    assert house.engine.run_of(handle.id).reason == "non_determinism"
