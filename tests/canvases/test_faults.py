"""Shapes of canvases over which Celery is known to hang, to lose results, or to start things twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from celery import chain, chord, group

from celery_saga import Retry, RunFailed, Saga, step
from celery_saga.client.handle import RunHandle
from celery_saga.core import codec
from celery_saga.core.records import StepKind
from celery_saga.core.status import StepStatus
from celery_saga.definition.adopted import ADOPTED
from celery_saga.definition.canvas import read_canvas, to_plain
from tests.scenarios.house import House


class Odd(Exception):
    """Cannot be made from what it says."""

    def __init__(self, first: object, *, second: object) -> None:
        super().__init__(first, second)


class Yard:
    """Tasks that write down who they were, what they got and what they undid."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.ledger: list[str] = []
        self.fail: Counter[str] = Counter()

        @house.task("yard.work")
        def work(*words: object) -> str:
            name = str(words[-1])
            self.ledger.append(name)
            if self.fail[name]:
                self.fail[name] -= 1
                raise Odd(object(), second=name) if name == "odd" else LookupError(name)
            return name

        @house.task("yard.undo")
        def undo(name: str) -> None:
            self.ledger.append(f"undo {name}")

        @house.task("yard.gather")
        def gather(found: object, *_: object) -> object:
            self.ledger.append("gather")
            return found

        self._work, self.undo, self.gather = work, undo, gather

    def work(self, word: str, /, **policies: Any) -> Any:
        return step(self._work.s(word), undo=self.undo.s(), **policies)

    def start(self, canvas: object, **given: Any) -> RunHandle[Any]:
        return ADOPTED.start(to_plain(read_canvas(canvas, "durable()", "nothing was started")), [], given)

    def run(self, canvas: object) -> RunHandle[Any]:
        handle = self.start(canvas)
        self.house.drain(limit=3000)
        return handle

    def failed(self, canvas: object) -> RunFailed:
        with pytest.raises(RunFailed) as error:
            self.run(canvas).wait(0)
        return error.value

    def undone(self) -> list[str]:
        return [line.removeprefix("undo ") for line in self.ledger if line.startswith("undo ")]


@pytest.fixture
def yard(house: House) -> Yard:
    return Yard(house)


@pytest.mark.parametrize("width", [0, 1, 2, 100])
def test_the_body_of_a_chord_of_any_width_gets_a_list_once(yard: Yard, width: int) -> None:
    names = [f"w{n}" for n in range(width)]

    handle = yard.run(chord([yard.work(name) for name in names], yard.gather.s()))

    assert handle.wait(0) == names
    assert yard.ledger.count("gather") == 1
    assert sorted(yard.ledger) == sorted([*names, "gather"])


def test_groups_and_chains_three_levels_deep_come_to_their_end(yard: Yard) -> None:
    def level(name: str, depth: int) -> Any:
        if depth == 0:
            return yard.work(name)
        parts = group(level(f"{name}{n}", depth - 1) for n in range(2))
        return chain(yard._work.si(f"{name}-before"), parts, yard.gather.s())

    handle = yard.run(group(level("a", 3), level("b", 3)) | yard.gather.s())

    # As in Celery, each leaf is the innermost result of its chain.
    assert handle.wait(0) == [[[[f"{x}{i}{j}{k}" for k in (0, 1)] for j in (0, 1)] for i in (0, 1)] for x in "ab"]
    assert sum(1 for line in yard.ledger if line[0] in "ab" and len(line) == 4) == 16
    assert handle.status == "completed"


def test_results_are_in_declared_order_whatever_order_members_end_in(yard: Yard) -> None:
    handle = yard.start(group(yard.work("slow"), yard.work("middle"), yard.work("fast")) | yard.gather.s())
    house = yard.house
    house.deliver(house.messages.pop(0))
    claims = [house.claim_next() for _ in range(3)]
    for claim in reversed(claims):
        assert house.finish(claim)
    house.drain()

    assert yard.ledger == ["fast", "middle", "slow", "gather"]
    assert handle.wait(0) == ["slow", "middle", "fast"]


@pytest.mark.parametrize("position", range(3))
def test_a_failing_member_of_a_chain_in_a_header_undoes_what_was_done_and_starts_no_body(
    yard: Yard, position: int
) -> None:
    yard.fail["b2"] = 9
    names = ["b0", "b1"]
    names.insert(position, "b2")
    branch = chain(*(yard.work(name) for name in names))

    error = yard.failed(chord([yard.work("a"), branch, yard.work("c")], yard.gather.s()))

    assert isinstance(error.cause, LookupError)
    assert "gather" not in yard.ledger
    done = [line for line in yard.ledger if line != "b2" and not line.startswith("undo ")]
    assert sorted(yard.undone()) == sorted(done)
    assert yard.ledger.count("b2") == 1


def test_a_failing_member_of_an_inner_chord_undoes_each_member_that_was_done_once(yard: Yard) -> None:
    yard.fail["y"] = 9
    inner = chord([yard.work("x"), yard.work("y")], yard.gather.s())

    error = yard.failed(chord([yard.work("a"), inner, chain(yard.work("b"), group(yard.work("c")))], yard.gather.s()))

    assert isinstance(error.cause, LookupError)
    assert Counter(yard.undone()) == Counter(x for x in yard.ledger if not x.startswith("undo") and x != "y")
    assert yard.house.store.without_wake_up() == []


def test_two_groups_in_a_chain_tell_the_waiter_when_the_first_fails(yard: Yard) -> None:
    yard.fail["b"] = 9

    error = yard.failed(chain(group(yard.work("a"), yard.work("b")), group(yard.work("c"), yard.work("d"))))

    assert isinstance(error.cause, LookupError)
    assert {"c", "d"} & set(yard.ledger) == set()


def test_an_error_with_arguments_that_no_json_can_write_fails_like_any_other(yard: Yard) -> None:
    yard.fail["odd"] = 9

    error = yard.failed(chord([yard.work("a"), yard.work("odd")], yard.gather.s()))

    assert "Odd" in str(error.cause)
    assert yard.undone() == [name for name in ("a",) if name in yard.ledger]


def test_the_body_waits_for_members_that_are_tried_again(yard: Yard) -> None:
    yard.fail.update({"b": 2, "d": 2})
    retry = Retry(max_attempts=3, delay=0)
    names = "abcde"

    handle = yard.run(chord([yard.work(name, retry=retry) for name in names], yard.gather.s()))

    assert handle.wait(0) == list(names)
    assert yard.ledger[-1] == "gather"
    attempts = [row.attempt for row in handle.steps() if row.kind is StepKind.STEP and row.task == "yard.work"]
    assert sorted(attempts) == [1, 1, 1, 3, 3]


def test_every_message_twice_starts_nothing_twice(yard: Yard) -> None:
    yard.house.duplicate = True
    part = chain(yard.work("x"), group(yard.work("y"), yard.work("z")))

    handle = yard.run(chain(group(part, yard.work("a")), yard.gather.s(), yard.work("last")))

    assert handle.wait(0) == "last"
    assert max(Counter(yard.ledger).values()) == 1


def test_the_undos_of_a_canvas_are_last_in_first_out(yard: Yard) -> None:
    yard.fail["last"] = 9
    canvas = chain(yard.work("a"), group(yard.work("b"), chain(yard.work("c"), yard.work("d"))), yard.work("last"))

    yard.failed(canvas)

    done = [line for line in yard.ledger if not line.startswith("undo ") and line != "last"]
    assert yard.undone() == done[::-1]


def test_two_hundred_steps_and_twenty_levels_are_stored_once(yard: Yard) -> None:
    long = chain(*(yard.work(f"s{n}") for n in range(200)))
    deep: Any = yard.work("leaf")
    for level in range(20):
        deep = group(deep, yard.work(f"l{level}"))
        deep = chain(deep, yard.gather.s())

    for canvas, count in ((long, 200), (deep, 41)):
        plain = to_plain(read_canvas(canvas, "durable()", "nothing was started"))
        handle = ADOPTED.start(plain, [], {})
        assert len(codec.encode(plain)) < count * 200
        assert handle.status == "queued"


def test_a_named_member_of_a_group_has_its_name_in_its_key(yard: Yard) -> None:
    handle = yard.run(group(yard.work("a", name="paid"), yard.work("b")))

    keys = {row.key for row in handle.steps() if row.kind is StepKind.STEP}
    assert keys == {"group[0]/paid", "group[1]"}


def test_a_member_that_is_cancelled_leaves_no_message_and_no_live_step(yard: Yard) -> None:
    handle = yard.start(chord([yard.work("a"), chain(yard.work("b"), yard.work("c"))], yard.gather.s()))
    house = yard.house
    house.deliver(house.messages.pop(0))
    house.deliver(house.messages.pop(0))

    handle.cancel()
    house.drain()

    assert handle.status == "cancelled"
    assert yard.undone() == [name for name in yard.ledger[::-1] if not name.startswith("undo ")]
    assert all(row.status.is_end or row.status is StepStatus.HELD for row in handle.steps())


def test_a_saga_of_a_canvas_and_the_canvas_made_durable_have_the_same_steps(yard: Yard) -> None:
    canvas = chain(yard.work("a"), group(yard.work("b"), chain(yard.work("c"), yard.work("d"))), yard.gather.s())
    saga = Saga.from_canvas("yard_same_steps", canvas)
    yard.house.add(saga)

    handles = yard.start(canvas), saga.start()
    yard.house.drain()

    keys = [[(row.key, row.kind, row.task, row.args_text) for row in handle.steps()] for handle in handles]
    assert keys[0] == keys[1]
