"""Consecutive steps in one delivery, in this process: what is written when, and what makes the run leave that path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from celery_saga import Retry, Run, RunFailed, saga
from celery_saga.core.records import Action
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine.ports import Limits
from tests.inline.parlour import Parlour
from tests.servers import fresh_mariadb_database, fresh_postgresql_database

LEASE_S = 30.0


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def house(request: pytest.FixtureRequest) -> Iterator[Parlour]:
    limits = Limits(lease_s=LEASE_S, inline_slice_s=600.0)
    if request.param == "sqlite":
        with Parlour("sqlite://", limits=limits) as built:
            yield built
        return
    fresh = fresh_mariadb_database() if request.param == "mariadb" else fresh_postgresql_database("psycopg2")
    with fresh as url, Parlour(url, limits=limits) as built:
        yield built


class Kitchen:
    """Tasks of one house; `when` says what happens while a step with that word is executed."""

    def __init__(self, house: Parlour) -> None:
        self.house = house
        self.done: list[str] = []
        self.when: dict[str, Callable[[], Any]] = {}
        self.passes = 0

        @house.task("kitchen.cook")
        def cook(word: str) -> str:
            self.done.append(word)
            if word in self.when:
                self.when.pop(word)()
            return word

        @house.task("kitchen.clear")
        def clear(word: str) -> None:
            self.done.append(f"clear {word}")

        self.cook, self.clear = cook, clear

    def meal(self, *words: str, dispatch: str = "inline", **options: Any) -> Any:
        """A saga with a step for each word, each with an undo."""

        @saga(name="meal", dispatch=dispatch, **options)  # type: ignore[call-overload, untyped-decorator]
        def meal(run: Run) -> list[str]:
            self.passes += 1
            return [run.step(self.cook.si(word), name=word, undo=self.clear.si(word)) for word in words]

        self.house.add(meal)
        return meal


@pytest.fixture
def kitchen(house: Parlour) -> Kitchen:
    return Kitchen(house)


def test_consecutive_steps_cost_one_message_one_pass_and_one_commit_each(house: Parlour, kitchen: Kitchen) -> None:
    run = kitchen.meal("a", "b", "c").start()
    commits: list[str] = []
    written = ("after:commit transact", "after:write at once")
    house.store.trace = lambda label: commits.append(label) if label in written else None

    house.drain()

    assert run.refresh().result == ["a", "b", "c"]
    assert kitchen.done == ["a", "b", "c"]
    assert house.sent == ["run"]
    assert kitchen.passes == 1
    # the claim of a; each outcome with the next claim; the last outcome with the end
    assert len(commits) == 4
    assert [(x.key, x.attempt, x.sends, x.seq) for x in run.steps()] == [("a", 1, 0, 1), ("b", 1, 0, 2), ("c", 1, 0, 3)]
    assert house.actions(run.id) == ["ok", "ok", "ok", "end"]


def test_while_a_step_is_executed_its_row_is_claimed_and_the_step_before_is_done(
    house: Parlour, kitchen: Kitchen
) -> None:
    seen: list[Any] = []
    run = kitchen.meal("a", "b").start()
    kitchen.when["b"] = lambda: seen.extend(house.store.steps(run.id))

    house.drain()

    first, second = seen
    assert (first.status, second.status) == (StepStatus.DONE, StepStatus.RUNNING)
    assert second.owner == house.owner
    assert second.claim_token
    assert second.lease_until == second.wake_at == house.now + timedelta(seconds=LEASE_S)


def test_a_cancel_while_a_step_runs_keeps_the_next_from_starting(house: Parlour, kitchen: Kitchen) -> None:
    run = kitchen.meal("a", "b", "c").start()
    kitchen.when["b"] = lambda: house.engine.cancel(run.id)

    house.drain()

    assert run.refresh().status == RunStatus.CANCELLED
    assert kitchen.done == ["a", "b", "clear b", "clear a"]


def test_a_signal_while_a_step_runs_is_kept_and_the_run_goes_on_in_another_delivery(
    house: Parlour, kitchen: Kitchen
) -> None:
    @saga(name="waits", dispatch="inline")
    def waits(run: Run) -> list[str]:
        kitchen.passes += 1
        first = run.step(kitchen.cook.si("a"), name="a")
        second = run.step(kitchen.cook.si("b"), name="b")
        word = run.wait_signal("word")
        return [first, second, word, run.step(kitchen.cook.si("c"), name="c")]

    house.add(waits)
    run = waits.start()
    kitchen.when["a"] = lambda: run.signal("word", "hello")

    house.drain()

    assert run.refresh().result == ["a", "b", "hello", "c"]
    assert kitchen.done == ["a", "b", "c"]
    assert house.executed == ["a", "b", "c"]
    assert "a" not in house.sent


def test_a_cancel_inside_a_shield_is_honoured_when_that_is_left(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="shielded", dispatch="inline")
    def shielded(run: Run) -> None:
        with run.shield():
            for word in ("a", "b"):
                run.step(kitchen.cook.si(word), name=word, undo=kitchen.clear.si(word))
        run.step(kitchen.cook.si("c"), name="c")

    house.add(shielded)
    run = shielded.start()
    kitchen.when["a"] = lambda: house.engine.cancel(run.id)

    house.drain()

    assert run.refresh().status == RunStatus.CANCELLED
    assert kitchen.done == ["a", "b", "clear b", "clear a"]


def test_after_the_pivot_a_failing_step_is_tried_on_by_messages(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="pivoted", dispatch="inline", errors=[ValueError])
    def pivoted(run: Run) -> None:
        run.step(kitchen.cook.si("a"), name="a", undo=kitchen.clear.si("a"))
        run.pivot()
        run.step(kitchen.cook.si("b"), name="b")
        run.step(kitchen.cook.si("c"), name="c")

    def fail() -> None:
        raise ValueError("hot")

    house.add(pivoted)
    run = pivoted.start()
    kitchen.when["b"] = fail
    house.drain()

    house.advance(400)

    assert run.refresh().status == RunStatus.COMPLETED
    assert kitchen.done == ["a", "b", "b", "c"]


def test_a_scope_that_is_left_by_an_error_is_undone_and_the_body_goes_on(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="scoped", dispatch="inline", errors=[ValueError])
    def scoped(run: Run) -> None:
        run.step(kitchen.cook.si("a"), name="a", undo=kitchen.clear.si("a"))
        try:
            with run.scope("inner"):
                run.step(kitchen.cook.si("b"), name="b", undo=kitchen.clear.si("b"))
                run.step(kitchen.cook.si("c"), name="c", undo=kitchen.clear.si("c"), retry=Retry(1))
        except ValueError:
            run.step(kitchen.cook.si("d"), name="d")

    def fail() -> None:
        raise ValueError("hot")

    house.add(scoped)
    run = scoped.start()
    kitchen.when["c"] = fail

    house.drain()

    assert run.refresh().status == RunStatus.COMPLETED
    assert kitchen.done == ["a", "b", "c", "clear b", "d"]


def test_an_endless_run_goes_on_as_new(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="endless", dispatch="inline")
    def endless(run: Run, rounds: int) -> int:
        run.step(kitchen.cook.si(f"r{rounds}"), name="a")
        if rounds > 1:
            run.continue_as_new(rounds - 1)
        return run.generation

    house.add(endless)
    run = endless.start(3)

    house.drain()

    assert run.refresh().result == 3
    assert kitchen.done == ["r3", "r2", "r1"]


def test_a_suspend_while_a_step_runs_keeps_its_outcome(house: Parlour, kitchen: Kitchen) -> None:
    run = kitchen.meal("a", "b").start()
    kitchen.when["a"] = lambda: house.engine.suspend(run.id)
    house.drain()
    parked = run.refresh().status

    house.engine.resume(run.id)
    house.drain()

    assert parked == RunStatus.SUSPENDED
    assert run.refresh().result == ["a", "b"]
    assert kitchen.done == ["a", "b"]


def test_a_deadline_that_passes_while_a_step_runs_ends_the_run_there(house: Parlour, kitchen: Kitchen) -> None:
    run = kitchen.meal("a", "b", deadline=10).start()

    def late() -> None:
        house.now += timedelta(seconds=11)

    kitchen.when["a"] = late
    house.drain()

    assert run.refresh().status == RunStatus.FAILED
    assert kitchen.done == ["a", "clear a"]


def test_after_its_slice_it_yields_to_another_delivery(house: Parlour, kitchen: Kitchen) -> None:
    house.ends_after = 2
    run = kitchen.meal(*"abcde").start()

    house.drain()

    assert run.refresh().result == list("abcde")
    assert kitchen.done == list("abcde")
    assert house.sent == ["run"] * 3
    assert kitchen.passes == 3


def test_a_slice_of_nothing_still_executes_one_step_a_delivery(kitchen: Kitchen, house: Parlour) -> None:
    house.ends_after = 0
    run = kitchen.meal("a", "b").start()

    house.drain()

    assert run.refresh().result == ["a", "b"]
    assert house.sent == ["run", "run"]


def test_a_step_by_the_broker_leaves_and_the_coordinator_takes_over_again(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="mixed", dispatch="inline")
    def mixed(run: Run) -> None:
        for word, dispatch in (("a", None), ("b", "broker"), ("c", None), ("d", None)):
            run.step(kitchen.cook.si(word), name=word, dispatch=dispatch)  # type: ignore[arg-type]

    house.add(mixed)
    run = mixed.start()

    house.drain()

    assert run.refresh().status == RunStatus.COMPLETED
    assert house.executed == ["a", "c", "d"]
    assert house.sent == ["run", "b", "run"]


def test_one_step_of_a_saga_can_be_inline(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="mostly_broker")
    def mostly(run: Run) -> None:
        run.step(kitchen.cook.si("a"), name="a")
        run.step(kitchen.cook.si("b"), name="b", dispatch="inline")
        run.step(kitchen.cook.si("c"), name="c")

    house.add(mostly)
    run = mostly.start()

    house.drain()

    assert run.refresh().status == RunStatus.COMPLETED
    assert house.executed == ["b"]
    assert house.sent == ["run", "a", "run", "c"]


def test_a_failed_attempt_is_tried_again_by_a_message_after_its_delay(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="again", dispatch="inline")
    def again(run: Run) -> list[str]:
        return [
            run.step(kitchen.cook.si(word), name=word, retry=Retry(2, delay=5, jitter=False)) for word in ("a", "b")
        ]

    def fail() -> None:
        raise ValueError("hot")

    house.add(again)
    run = again.start()
    kitchen.when["a"] = fail
    house.drain()
    at_once = list(kitchen.done)

    house.advance(6)

    assert at_once == ["a"]
    assert run.refresh().result == ["a", "b"]
    assert [(x.key, x.attempt, x.failures) for x in run.steps()] == [("a", 2, 1), ("b", 1, 0)]
    assert house.executed == ["a", "b"]


def test_the_live_body_sees_an_error_and_may_go_another_way(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="other_way", dispatch="inline", errors=[ValueError])
    def other_way(run: Run) -> str:
        try:
            run.step(kitchen.cook.si("a"), name="a", retry=Retry(1))
        except ValueError:
            return run.step(kitchen.cook.si("b"), name="b")
        return "never"

    def fail() -> None:
        raise ValueError("hot")

    house.add(other_way)
    run = other_way.start()
    kitchen.when["a"] = fail

    house.drain()

    assert run.refresh().result == "b"
    assert house.sent == ["run"]
    assert house.actions(run.id) == ["fail", "ok", "end"]


def test_an_error_that_leaves_the_live_body_fails_the_run_and_undoes_it(house: Parlour, kitchen: Kitchen) -> None:
    def fail() -> None:
        raise ValueError("hot")

    run = kitchen.meal("a", "b", errors=[ValueError]).start()
    kitchen.when["b"] = fail

    house.drain()

    with pytest.raises(RunFailed) as failed:
        run.wait(0)
    assert isinstance(failed.value.cause, ValueError)
    assert kitchen.done == ["a", "b", "clear a"]


def test_a_bug_in_the_body_after_a_step_parks_the_run_with_that_step_done(house: Parlour, kitchen: Kitchen) -> None:
    @saga(name="buggy", dispatch="inline")
    def buggy(run: Run) -> None:
        run.step(kitchen.cook.si("a"), name="a")
        raise KeyError("typo")

    house.add(buggy)
    run = buggy.start()

    house.drain()

    loaded = house.store.load(run.id)
    assert loaded is not None
    assert (loaded.snapshot.run.status, loaded.snapshot.run.reason) == (RunStatus.SUSPENDED, "body_error")
    assert loaded.snapshot.steps["a"].status is StepStatus.DONE


def test_what_the_live_body_recorded_is_what_a_replay_finds(house: Parlour, kitchen: Kitchen) -> None:
    seen: list[tuple[Any, ...]] = []

    @saga(name="determined", dispatch="inline")
    def determined(run: Run) -> None:
        drawn: list[Any] = [run.now(), run.uuid(), run.random(), run.record("r", lambda: len(seen))]
        run.step(kitchen.cook.si(run.idempotency_key("a")), name="a")
        house.now += timedelta(seconds=1)
        drawn += [run.now(), run.uuid(), run.random(), run.record("r", lambda: len(seen))]
        seen.append(tuple(drawn))
        run.step(kitchen.cook.si(run.idempotency_key("b")), name="b")
        seen.append(tuple(drawn))
        run.sleep(5)

    house.add(determined)
    run = determined.start()
    house.drain()

    house.advance(6)

    assert run.refresh().status == RunStatus.COMPLETED
    assert len(seen) == 4
    assert len(set(seen)) == 1
    assert kitchen.done == [f"{run.id}:1:a", f"{run.id}:1:b"]


def test_a_body_cannot_keep_the_death_of_its_process_out(house: Parlour, kitchen: Kitchen) -> None:
    kept: list[str] = []

    class Death(BaseException):
        pass

    @saga(name="clings", dispatch="inline")
    def clings(run: Run) -> str:
        try:
            return run.step(kitchen.cook.si("a"), name="a")
        except Death:
            kept.append("seen")
            return "never"

    def die() -> None:
        raise Death

    house.add(clings)
    run = clings.start()
    kitchen.when["a"] = die
    with pytest.raises(Death):
        house.drain()
    left = house.store.steps(run.id)[0]

    house.advance(LEASE_S + 1)

    assert kept == []
    assert left.status is StepStatus.RUNNING
    assert run.refresh().result == "a"
    assert house.executed == ["a"]
    assert [(x.attempt, x.stalls) for x in run.steps()] == [(2, 1)]


def test_after_a_lost_attempt_its_step_goes_alone_and_later_ones_are_inline_again(
    house: Parlour, kitchen: Kitchen
) -> None:
    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    run = kitchen.meal(*"abcd").start()
    kitchen.when["b"] = die
    with pytest.raises(Death):
        house.drain()
    house.sent.clear()

    house.advance(LEASE_S + 1)

    assert run.refresh().result == list("abcd")
    assert kitchen.done == ["a", "b", "b", "c", "d"]
    # b by itself; the body after it carefully, and so c by itself; then all is as before
    assert house.sent == ["b", "run", "c", "run"]
    assert house.executed == ["a", "b", "d"]


def test_who_was_stopped_for_longer_than_a_lease_changes_nothing(house: Parlour, kitchen: Kitchen) -> None:
    run = kitchen.meal("a", "b").start()

    def stopped() -> None:
        mine, house.engine = house.engine, house.another_engine()
        house.now += timedelta(seconds=LEASE_S + 1)
        house.sweep()
        house.engine = mine

    kitchen.when["a"] = stopped
    house.drain()

    assert run.refresh().result == ["a", "b"]
    assert kitchen.done == ["a", "a", "b"]
    assert house.rows(run.id, Action.OK) == 2


def test_a_second_delivery_meanwhile_does_nothing(house: Parlour, kitchen: Kitchen) -> None:
    run = kitchen.meal("a", "b").start()
    versions: list[int] = []

    def again() -> None:
        house.engine.coordinate(run.id)
        loaded = house.store.load(run.id)
        assert loaded is not None
        versions.append(loaded.snapshot.run.state_version)

    kitchen.when["a"] = again
    house.drain()

    assert run.refresh().result == ["a", "b"]
    assert kitchen.done == ["a", "b"]
    assert house.sent == ["run"]
    assert versions == [2]


def test_an_undo_is_sent_as_a_message(house: Parlour, kitchen: Kitchen) -> None:
    run = kitchen.meal("a").start()
    kitchen.when["a"] = lambda: house.engine.cancel(run.id)

    house.drain()

    assert house.sent == ["run", "a!undo"]


def test_a_step_may_send_tasks_although_its_body_waits_for_it(house: Parlour, kitchen: Kitchen) -> None:
    from celery_saga.client import purity

    run = kitchen.meal("a").start()
    inside: list[bool] = []
    kitchen.when["a"] = lambda: inside.append(purity.is_in_body())

    house.drain()

    assert run.refresh().result == ["a"]
    assert inside == [False]


def test_parts_of_a_join_are_sent_as_messages(house: Parlour, kitchen: Kitchen) -> None:
    def part(run: Run) -> str:
        run.step(kitchen.cook.si("c"), name="c")
        return str(run.step(kitchen.cook.si("d"), name="d"))

    @saga(name="grouped", dispatch="inline")
    def grouped(run: Run) -> Any:
        first = run.step(kitchen.cook.si("a"), name="a")
        both = run.group(kitchen.cook.si("b"), part)
        return [first, *both, run.step(kitchen.cook.si("e"), name="e")]

    house.add(grouped)
    run = grouped.start()

    house.drain()

    assert run.refresh().result == ["a", "b", "d", "e"]
    assert house.executed == ["a", "e"]


@pytest.mark.parametrize("how", ["race", "group", "map"])
def test_what_a_join_gave_is_written_with_the_end_however_many_steps_there_are(
    house: Parlour, kitchen: Kitchen, how: str
) -> None:
    def joined(run: Run) -> Any:
        if how == "race":
            return run.race(a=kitchen.cook.si("a")).value
        return run.group([kitchen.cook.si("a")])[0] if how == "group" else run.map(kitchen.cook, ["a"])[0]

    @saga(name="feast", dispatch="inline")
    def feast(run: Run) -> list[str]:
        return [joined(run), *(run.step(kitchen.cook.si(str(number))) for number in range(40))]

    house.add(feast)
    run = feast.start()
    house.drain()

    words = ["a", *map(str, range(40))]
    assert run.refresh().result == words
    assert kitchen.done == words
    loaded = house.store.load(run.id)
    assert loaded is not None and loaded.snapshot.run.folded
    assert loaded.snapshot.steps[how].result_text is not None
