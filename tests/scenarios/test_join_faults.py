"""What Celery's chords and groups are known to do wrong, done to joins: R numbers are those of the list of reports.

R019 and R020 (tasks that replace themselves) and R037 (two apps in one process) concern every step, not joins alone.
"""

from __future__ import annotations

import json
import logging
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from celery.backends.base import DisabledBackend

from celery_saga import DefinitionError, Retry, Run, RunFailed, Signal, saga, step
from celery_saga.core.records import Action, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.definition.registry import Registry
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Limits, Message, RunMessage, StepMessage
from celery_saga.runtime.messages import envelope_of, prepared
from tests.scenarios.conftest import STORES, _database
from tests.scenarios.house import House, Place


class Odd(Exception):
    """Cannot be made from what it says, nor written as JSON."""

    def __init__(self, first: object, *, second: object) -> None:
        super().__init__(first, second)


class Yard:
    """Tasks that write down what they did, and fail as told."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.calls: list[str] = []
        self.fail: Counter[str] = Counter()

        @house.task("join_faults.work")
        def work(name: str) -> str:
            self.calls.append(name)
            if self.fail[name]:
                self.fail[name] -= 1
                raise Odd(object(), second=name) if name == "odd" else LookupError(name)
            return name

        @house.task("join_faults.undo")
        def undo(name: str) -> None:
            self.calls.append(f"undo {name}")

        @house.task("join_faults.gather")
        def gather(found: list[Any]) -> list[Any]:
            self.calls.append("gather")
            return found

        self.work, self.undo, self.gather = work, undo, gather

    def step(self, name: str, **options: Any) -> Any:
        return step(self.work.si(name), undo=self.undo, **options)

    def chord(self, run: Run, parts: Sequence[Any]) -> Any:
        """The parts side by side, then one task that gets what they gave."""
        return run.step(self.gather.si(run.group(list(parts))))

    def start(self, body: Any) -> Any:
        made = saga(name="join_faults")(body)
        self.house.add(made)
        return made.start()

    def run(self, body: Any) -> Any:
        handle = self.start(body)
        self.house.drain(limit=5000)
        return handle.refresh()

    def undone(self) -> list[str]:
        return [x.removeprefix("undo ") for x in self.calls if x.startswith("undo ")]

    def done(self) -> list[str]:
        return [x for x in self.calls if not x.startswith("undo ")]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """In memory: what the stores do is the same for all joins, and tested with them."""
    built = Place("sqlite://")
    yield built
    built.store.close()


@pytest.fixture
def yard(house: House) -> Yard:
    # A slow machine is no outage: leases end when the virtual clock says so.
    house.engine = Engine(house.store, house, house.registry, Limits(), monotonic_s=lambda: 0.0)
    return Yard(house)


def let_leases_end(house: House) -> None:
    for _ in range(9):
        house.advance(4)


# -- the counter -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["no message", "each second one", "every first one"])
def test_a_hundred_parts_are_joined_once_though_wake_ups_get_lost(yard: Yard, lost: str) -> None:
    """R001: all members done, and the body never queued."""
    house, names = yard.house, [f"w{n}" for n in range(100)]
    handle = yard.start(lambda run: yard.chord(run, [yard.work.si(name) for name in names]))
    seen: Counter[str] = Counter()
    for _ in range(5000):
        if house.messages:
            message = house.messages.pop(0)
            seen[key_of(message)] += 1
            is_lost = {"every first one": seen[key_of(message)] == 1, "each second one": seen.total() % 2 == 0}
            if not is_lost.get(lost):
                house.deliver(message)
        elif handle.refresh().status.is_end:
            break
        else:
            house.now += timedelta(seconds=60)
            house.engine.sweep()

    assert handle.wait(0) == names
    assert Counter(yard.calls) == Counter([*names, "gather"])


def key_of(message: Message) -> str:
    if isinstance(message, StepMessage):
        return message.step.key
    return "" if message.part is None else message.part.key


@pytest.mark.parametrize("kind", [each for each in STORES if each != "sqlite-memory"])  # that has one connection
def test_parts_that_end_at_the_same_moment_are_counted_one_by_one(kind: str, tmp_path: Path) -> None:
    """R014, R003, R001: a counter that two members write at once loses one of them, or starts the body twice."""
    with _database(kind, tmp_path) as url, House(url) as house:
        yard, names = Yard(house), [f"w{n}" for n in range(5)]
        for _ in range(4):
            yard.calls.clear()
            made = saga(name="join_faults")(lambda run: yard.chord(run, [yard.work.si(name) for name in names]))
            house.registry.add(made)
            handle = made.start()
            claims = [house.claim_next() for _ in names]
            barrier = threading.Barrier(len(claims))
            ends: list[Any] = []

            def finish(claimed: Any, barrier: threading.Barrier = barrier, ends: list[Any] = ends) -> None:
                barrier.wait(10)
                ends.append(house.finish(claimed))

            threads = [threading.Thread(target=finish, args=(claimed,)) for claimed in claims]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert ends == [True] * 5
            assert [x.join_left for x in handle.steps() if x.kind is StepKind.JOIN] == [0]
            house.drain()

            assert handle.refresh().wait(0) == names
            assert Counter(yard.calls) == Counter([*names, "gather"])
            house.place.empty()


def test_a_trigger_that_comes_five_times_starts_the_next_step_once(yard: Yard) -> None:
    """R014: the body of a chord whose members end in groups was started twice."""
    house = yard.house
    handle = yard.start(
        lambda run: yard.chord(run, [lambda run: list(run.group(yard.work.si("a"))), yard.work.si("b")])
    )
    while house.messages:
        message = house.messages.pop(0)
        for _ in range(5):
            house.deliver(message)

    assert handle.refresh().wait(0) == [["a"], "b"]
    assert Counter(yard.calls) == Counter(["a", "b", "gather"])
    assert sum(x.task == "join_faults.gather" for x in handle.steps()) == 1


def test_an_attempt_that_comes_back_from_the_dead_is_not_counted(yard: Yard) -> None:
    """R003, R014, R029: a member whose end was not seen is done again and counted once, whatever the dead one says."""
    house = yard.house
    handle = yard.start(lambda run: yard.chord(run, [yard.work.si(name) for name in "abcde"]))
    claims = [house.claim_next() for _ in "abcde"]
    dead = claims.pop(2)
    for claimed in claims:
        assert house.finish(claimed)
    assert not handle.refresh().status.is_end
    let_leases_end(house)
    assert handle.refresh().wait(0) == list("abcde")

    assert not house.finish(dead)
    house.drain()

    rows = {x.key: x for x in handle.steps()}
    assert rows["group[2]"].attempt == 2
    assert rows["group"].join_left == 0
    assert yard.calls.count("gather") == 1


@pytest.mark.parametrize("reaches", range(6))
def test_a_join_whose_creation_is_cut_off_after_some_messages_is_completed(yard: Yard, reaches: int) -> None:
    """R011: a chord created half way, and a poller that looks for the other half for ever."""
    house = yard.house
    handle = yard.start(lambda run: yard.chord(run, [yard.work.si(name) for name in "abcde"]))
    house.deliver(house.messages.pop(0))
    house.messages[:] = [x for x in house.messages if isinstance(x, StepMessage)][:reaches]
    house.drain()
    for _ in range(3):
        house.advance(60)

    assert handle.refresh().wait(0) == list("abcde")
    assert Counter(yard.calls) == Counter([*"abcde", "gather"])


# -- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0, 1, 2])
def test_what_follows_a_join_of_any_width_gets_a_list(yard: Yard, width: int) -> None:
    """R016: a single member passed a bare value."""
    names = [f"w{n}" for n in range(width)]

    handle = yard.run(lambda run: [yard.chord(run, [*map(yard.work.si, names)]), list(run.map(yard.work, names))])

    assert handle.wait(0) == [names, names]


def test_joins_three_levels_deep_end_innermost_first_without_any_result_backend(yard: Yard) -> None:
    """R002, R005, R006, R008, R017: nested groups whose counters are in a backend that expires, or is not there."""
    assert isinstance(yard.house.app.backend, DisabledBackend)

    def level(name: str, depth: int) -> Any:
        if depth == 0:
            return yard.step(name)
        parts = [level(f"{name}{n}", depth - 1) for n in range(2)]
        return lambda run: [yard.chord(run, parts), list(run.group(yard.work.si(f"{name}x")))][0]

    handle = yard.run(lambda run: yard.chord(run, [level("a", 2), level("b", 2)]))

    assert handle.wait(0) == [[[f"{x}{i}{j}" for j in (0, 1)] for i in (0, 1)] for x in "ab"]
    assert sum(len(x) == 3 and x[1:].isdecimal() for x in yard.calls) == 8
    rows = [x for x in handle.steps() if x.kind is StepKind.JOIN and x.join_total == 2]
    seqs = {x.key: x.seq or 0 for x in rows}
    assert all(seqs[inner] < seqs[outer] for inner in seqs for outer in seqs if inner.startswith(outer + "["))


def test_groups_one_after_the_other_have_just_the_declared_steps(yard: Yard) -> None:
    """R015: later tasks ran once for each member of the group before."""

    def body(run: Run) -> None:
        for names in ("abc", "de", "fgh"):
            run.group([yard.work.si(name) for name in names])

    handle = yard.run(body)

    assert Counter(x.kind for x in handle.steps()) == {StepKind.JOIN: 3, StepKind.STEP: 8}
    assert Counter(yard.calls) == Counter("abcdefgh")


def test_results_are_in_declared_order_whatever_order_parts_end_in(yard: Yard) -> None:
    """R018: the order of a chord's results was that in which its members ended."""
    handle = yard.start(lambda run: yard.chord(run, [yard.work.si(name) for name in ("slow", "middle", "fast")]))
    claims = [yard.house.claim_next() for _ in range(3)]
    for claimed in reversed(claims):
        yard.house.finish(claimed)
    yard.house.drain()

    assert yard.calls == ["fast", "middle", "slow", "gather"]
    assert handle.refresh().wait(0) == ["slow", "middle", "fast"]


def test_twenty_levels_take_rows_and_passes_in_proportion(yard: Yard) -> None:
    """R031: building nested chords took exponential time, and the body of each message held all the others."""
    passes: list[str] = []
    yard.house.registry.before_pass = lambda: passes.append("one")

    def level(depth: int) -> Any:
        if depth == 0:
            return yard.work.si("leaf")
        return lambda run: list(run.group(level(depth - 1), yard.work.si(f"l{depth}")))

    handle = yard.start(lambda run: list(run.group(level(20))))
    yard.house.drain(limit=5000)

    assert handle.refresh().status == "completed"
    assert len(handle.steps()) == 1 + 3 * 20 + 1
    assert len(passes) < 5 * 20
    assert len(yard.calls) == 21


def test_messages_of_parts_hold_ids_and_no_canvas(yard: Yard) -> None:
    """R007, R031, R035: group ids, chords and links of one join got into messages of another."""
    house = yard.house
    yard.start(lambda run: list(run.group(yard.work.si("x" * 50_000), lambda run: yard.chord(run, [yard.step("a")]))))
    sent = []
    while house.messages:
        sent.append(house.messages[0])
        house.deliver(house.messages.pop(0))

    assert {key_of(x) for x in sent} >= {"", "group[0]", "group[1]", "group[1]/group[0]", "group[1]/gather"}
    for each in sent:
        message, _ = prepared(house.app, house.app.amqp, envelope_of(house.app, each, None))
        assert message.headers["group"] is None
        embedded = message.body[2]
        assert {name: embedded[name] for name in ("callbacks", "errbacks", "chain", "chord")} == dict.fromkeys(
            ("callbacks", "errbacks", "chain", "chord")
        )
        assert len(json.dumps(message.body)) + len(json.dumps(message.headers)) < 2000


def test_a_generator_of_items_is_taken_to_its_end_and_one_that_is_too_wide_is_refused(yard: Yard) -> None:
    """R033: a generator was taken to its end before the first member was sent; so it is here, up to a limit."""
    refused: list[str] = []

    def body(run: Run) -> Any:
        try:
            run.map(yard.work, (str(n) for n in range(100_001)))
        except DefinitionError as error:
            refused.append(str(error))
        return run.map(yard.work, (str(n) for n in range(5)))

    handle = yard.run(body)

    assert handle.wait(0) == [str(n) for n in range(5)]
    assert "100000" in refused[0].replace(",", "")


def test_items_without_end_are_refused_after_one_too_many(yard: Yard) -> None:
    taken: list[int] = []

    def endless() -> Iterator[str]:
        for number in count():
            taken.append(number)
            assert number < 200_000, "taken without a bound"
            yield str(number)

    refused = yard.run(lambda run: run.map(yard.work, endless()))

    assert refused.refresh().status is RunStatus.SUSPENDED
    assert "100000" in str(refused.error)
    assert len(taken) == 100_001


def test_a_part_that_an_older_worker_handed_back_does_not_time_out_while_it_waits(yard: Yard) -> None:
    """The end of its back-off was taken for a time-out of its own, and the join never heard of it."""
    house = yard.house
    older = Engine(house.store, house, Registry(()), Limits())

    def waits(run: Run) -> Any:
        return run.wait_signal("go")

    handle = yard.start(lambda run: run.group(waits, lambda run: run.sleep(30) or run.step(yard.work.si("late"))))
    house.deliver(house.messages.pop(0))
    while house.messages:
        message = house.messages.pop(0)
        if key_of(message) == "group[0]":
            assert isinstance(message, RunMessage)
            older.coordinate(message.run.id, part=message.part_ref)
        else:
            house.deliver(message)
    for _ in range(8):
        house.advance(5)
    before = {x.key: x.status for x in handle.steps()}
    handle.signal("go", "gone")
    house.drain()

    assert before["group[0]"] is StepStatus.WAITING
    assert handle.refresh().wait(0) == ("gone", "late")


def test_a_pass_beside_thousands_of_parts_holds_none_of_them(yard: Yard) -> None:
    """R034, R032: what a run did before is loaded again with each look at it."""
    house, width = yard.house, 300
    house.duplicate = False
    large = "x" * 2000

    def body(run: Run) -> None:
        run.map(yard.work, [f"{n}{large}" for n in range(width)])
        run.wait_signal("go")

    handle = yard.start(body)
    house.drain(limit=5000)
    tracemalloc.start()
    loaded = house.store.load(handle.id)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert loaded is not None
    assert len(loaded.snapshot.steps) == 2
    assert most < 2 * width * len(large)  # the join's own result, and not that of each part too


def test_the_options_of_a_part_go_with_its_message(yard: Yard) -> None:
    """R036: the priority got lost on the way to a chord's body and to later links."""
    house = yard.house

    def body(run: Run) -> None:
        run.group(yard.work.si("a").set(priority=7), lambda run: run.step(yard.work.si("b").set(priority=7), name="b"))
        run.map(yard.work.s().set(priority=7), ["c", "d"])
        run.step(yard.work.si("e").set(priority=7), name="e")

    yard.start(body)
    seen: dict[str, Any] = {}
    while house.messages:
        if isinstance(house.messages[0], StepMessage):
            envelope = envelope_of(house.app, house.messages[0], None)
            seen[house.messages[0].step.key] = prepared(house.app, house.app.amqp, envelope)[1].get("priority")
        house.deliver(house.messages.pop(0))

    assert seen == dict.fromkeys(["group[0]", "group[1]/b", "map[0]", "map[1]", "e"], 7)


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", range(3))
@pytest.mark.parametrize("position", ["first", "middle", "last"])
def test_a_part_that_fails_anywhere_undoes_what_was_done_and_leaves_nothing_that_polls(
    yard: Yard, failing: int, position: str
) -> None:
    """R009, R010, R021, R022: an unlock loop for ever, and no error callback."""
    where = ["first", "middle", "last"].index(position)
    branch = ["b0", "b1"]
    branch.insert(failing, "bad")
    yard.fail["bad"] = 9

    def chain(run: Run) -> list[str]:
        return [run.step(yard.step(name)) for name in branch]

    parts: list[Any] = [yard.step("a"), yard.step("c")]
    parts.insert(where, chain)

    handle = yard.run(lambda run: yard.chord(run, parts))

    with pytest.raises(RunFailed) as error:
        handle.wait(0)
    assert isinstance(error.value.cause, LookupError)
    assert yard.undone() == [name for name in reversed(yard.done()) if name != "bad"]
    assert "gather" not in yard.calls
    for _ in range(5):
        yard.house.now += timedelta(hours=1)
        assert yard.house.engine.sweep() == 0
    assert yard.house.messages == []


def test_the_waiter_learns_of_a_failure_in_the_first_of_two_groups(yard: Yard) -> None:
    """R023: a failure in the first group left the client waiting for ever."""
    yard.fail["b"] = 9

    def body(run: Run) -> None:
        run.group(yard.work.si("a"), yard.work.si("b"))
        run.group(yard.work.si("c"), yard.work.si("d"))

    with pytest.raises(RunFailed, match="LookupError: b"):
        yard.run(body).wait(0)
    assert {"c", "d"} & set(yard.calls) == set()


def test_a_failure_deep_inside_is_told_once_and_logged_as_no_error_of_ours(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    """R024, R025: a failing inner group gave an internal error in place of the outer one's callback."""
    yard.fail["bad"] = 9

    def inner(run: Run) -> Any:
        return yard.chord(run, [yard.step("x"), yard.step("bad"), yard.step("y")])

    with caplog.at_level(logging.ERROR, "celery_saga"):
        handle = yard.run(lambda run: yard.chord(run, [yard.step("a"), lambda run: list(run.group(inner))]))

    assert handle.status == "failed"
    assert Counter(yard.undone()) == Counter(x for x in yard.done() if x != "bad")
    assert yard.house.rows(handle.id, Action.FAIL) == 1
    assert caplog.records == []


def test_an_error_that_no_json_can_write_fails_a_part_like_any_other(yard: Yard) -> None:
    """R030: such an exception broke the bookkeeping of its chord, and of the next."""
    yard.fail["odd"] = 9

    handle = yard.run(lambda run: yard.chord(run, [yard.step("a"), yard.step("odd")]))

    with pytest.raises(RunFailed, match="Odd"):
        handle.wait(0)
    assert yard.undone() == [x for x in yard.done() if x == "a"]


# -- retries and waits -----------------------------------------------------------------------------------------------


def test_what_follows_waits_for_parts_that_are_tried_again(yard: Yard) -> None:
    """R026, R027: a member that retried kept the body from running, or the body ran before it."""
    yard.fail.update({"b": 2, "d": 2})
    retry = Retry(max_attempts=3, delay=3, jitter=False)
    handle = yard.run(lambda run: yard.chord(run, [step(yard.work.si(name), retry=retry) for name in "abcde"]))
    assert not handle.status.is_end
    assert "gather" not in yard.calls
    for _ in range(4):
        yard.house.advance(4)

    assert handle.refresh().wait(0) == list("abcde")
    assert yard.calls[-1] == "gather"
    rows: list[StepRecord] = [x for x in handle.steps() if x.join_key]
    assert [x.attempt for x in sorted(rows, key=lambda x: x.ordinal)] == [1, 3, 1, 3, 1]


def test_parts_that_wait_for_hours_cost_no_message(yard: Yard) -> None:
    """R013: polled once a second, by tasks, as long as a member takes."""
    go = Signal("go")
    house = yard.house
    handle = yard.run(lambda run: yard.chord(run, [yard.work.si("a"), lambda run: run.wait_signal(go)]))
    for _ in range(100):
        house.now += timedelta(minutes=1)
        assert house.engine.sweep() == 0
    assert house.messages == []

    handle.signal(go, "b")
    house.drain()

    assert handle.refresh().wait(0) == ["a", "b"]


def test_a_part_that_is_cancelled_with_its_message_on_the_way_holds_up_nobody(yard: Yard) -> None:
    """R001, R009: a member that was revoked left its chord waiting."""
    house = yard.house
    handle = yard.start(lambda run: yard.chord(run, [yard.step("a"), yard.step("b"), lambda run: run.sleep(3600)]))
    house.deliver(next(x for x in house.messages if isinstance(x, RunMessage)))
    running = house.claim_next()
    handle.cancel()
    house.drain()
    assert handle.refresh().status == "compensating"
    house.finish(running)
    house.drain()

    assert handle.refresh().status == "cancelled"
    assert yard.calls == ["a", "undo a"]
    assert all(x.status is not StepStatus.RUNNING for x in handle.steps())


def test_a_scope_around_an_aborted_group_undoes_also_what_ends_later(yard: Yard) -> None:
    """R021, R025: members that were under way when another failed are forgotten by error callbacks."""
    yard.fail["bad"] = 9

    def body(run: Run) -> str:
        try:
            with run.scope("try"):
                run.group(yard.step("slow"), yard.step("bad"))
        except LookupError:
            return str(run.step(yard.work.si("other way")))
        return "never"

    handle = yard.start(body)
    slow = yard.house.claim_next()
    yard.house.drain()
    yard.house.finish(slow)
    yard.house.drain()

    assert handle.refresh().wait(0) == "other way"
    assert sorted(yard.calls) == ["bad", "other way", "slow", "undo slow"]


def test_how_long_a_part_waits_for_a_newer_worker_does_not_grow_with_the_passes_before(yard: Yard) -> None:
    """Only hand-backs in a row make the wait longer: one after many passes is as short as the first."""
    fast = yard.house

    @saga(name="fault-many-passes")
    def body(run: Run) -> Any:
        def part(run: Run) -> int:
            for number in range(12):
                run.wait_signal(f"go {number}")
            return 1

        return list(run.group(part, yard.work.si("other")))

    fast.add(body)
    handle = body.start()
    fast.drain()
    for number in range(11):
        handle.signal(f"go {number}")
        fast.drain()
    known, fast.registry._sagas = fast.registry._sagas, {}
    handle.signal("go 11")
    fast.drain()
    fast.registry._sagas = known

    (part,) = [x for x in fast.store.steps(handle.id) if x.key == "group[0]"]
    assert part.attempt > 11
    assert part.due_at is not None
    assert 0.5 <= (part.due_at - fast.now).total_seconds() < 1.5
