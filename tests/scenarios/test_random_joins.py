"""Random trees of joins, whose tasks fail and whose messages come in any order, or twice: checked against a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from celery_saga import RunFailed, SignalExpired
from celery_saga.core.focus import is_inside
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Claimed
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Limits, Message, RunMessage
from tests.scenarios.house import House, Place
from tests.scenarios.join_trees import (
    GO,
    HALF_DONE,
    LATE_S,
    Boom,
    Do,
    Node,
    Performer,
    Race,
    Sequence,
    admits,
    errors,
    has_race,
    named,
    reachable,
    trees,
)

_SETTINGS = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

LAST_PICK = 11


class Site:
    """A house whose tasks write down what they did, and whose world goes on in an order that is given."""

    def __init__(self, house: House) -> None:
        self.house = house
        # A slow machine is no outage: leases end when the virtual clock says so.
        house.engine = Engine(house.store, house, house.registry, Limits(), monotonic_s=lambda: 0.0)
        self.calls: list[str] = []
        self.deaths = 0

        @house.task("random.do")
        def do(name: str, fails: bool) -> str:  # noqa: FBT001
            self.calls.append(f"do {name}")
            if fails:
                raise Boom(name)
            return f"did {name}"

        @house.task("random.item")
        def item(pair: tuple[str, bool]) -> str:
            return str(do.run(*pair))

        @house.task("random.undo")
        def undo(name: str) -> None:
            self.calls.append(f"undo {name}")

        self.performer = Performer(do, undo, item)
        house.add(self.performer.child, self.performer.body)

    def begin(self, tree: Node, *, duplicate: bool) -> Any:
        self.house.place.empty()
        self.house.messages.clear()
        self.house.duplicate = duplicate
        self.calls.clear()
        self.deaths = 0
        self.performer.won.clear()
        self.performer.tree = tree
        return self.performer.body.start()

    def play(
        self,
        handle: Any,
        order: list[int],
        *,
        cancel_at: int | None = None,
        signal_at: int | None = None,
        deaths: int = 0,
    ) -> None:
        """Let things happen, as this order picks among them, until the run has ended and nothing is left to happen."""
        house = self.house
        claims: list[Claimed] = []
        idle = 0
        for turn, pick in enumerate([*order, *[0] * 1000]):
            if turn == cancel_at:
                handle.cancel()
            if turn == signal_at and not handle.refresh().status.is_end:
                with suppress(SignalExpired):
                    handle.signal(GO, "now")
            there = len(house.messages) + len(claims)
            if there == 0:
                if handle.refresh().status.is_end:
                    return
                idle += 1
                assert idle < 20, f"the run waits for nothing: {handle.status}, {handle.error}"
                self._let_time_pass()
                continue
            number = pick % there
            if number >= len(house.messages):
                self._finish(claims.pop(number - len(house.messages)), dies=pick > LAST_PICK - deaths)
            else:
                claims += self._deliver(house.messages.pop(number))
            self.check_bounds(handle.id)
        raise AssertionError("the run never comes to rest")

    def _let_time_pass(self) -> None:
        """Until somebody is to be woken: leases end only under a sweeper's eyes, timers in one jump."""
        house = self.house
        for seconds in [*([4] * 9 if self.deaths else []), LATE_S + 60]:
            house.now += timedelta(seconds=seconds)
            house.engine.sweep()
            if house.messages:
                return

    def _finish(self, claimed: Claimed, *, dies: bool) -> None:
        """Execute an attempt; its process may die before that can be checked in."""
        if dies:
            self.deaths += 1
            self.house.execute(claimed)
        else:
            assert self.house.finish(claimed)

    def _deliver(self, message: Message) -> list[Claimed]:
        if isinstance(message, RunMessage):
            self.house.deliver(message)
            return []
        claimed = self.house.claim(message.step, "house:2")
        return [] if claimed is None else [claimed]

    def check_bounds(self, run_id: str) -> None:
        """No join has more parts in flight than it may."""
        steps = self.house.store.steps(run_id)
        for join in steps:
            bound = StepSpec.from_text(join.spec_text).concurrency if join.kind is StepKind.JOIN else None
            if bound is not None and join.status is StepStatus.WAITING:
                parts = [x for x in steps if x.join_key == join.key]
                assert sum(x.status is not StepStatus.HELD and not x.status.is_end for x in parts) <= bound, join.key


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    place = Place("sqlite://")
    with House(place) as house:
        yield Site(house)
    place.store.close()


@_SETTINGS
@given(
    tree=trees.map(named),
    order=st.lists(st.integers(0, LAST_PICK), max_size=60),
    duplicate=st.booleans(),
    cancel_at=st.one_of(st.none(), st.none(), st.integers(0, 25)),
    signal_at=st.one_of(st.none(), st.integers(0, 25)),
    deaths=st.sampled_from([0, 0, 2, 5]),
)
@example(named(Race((HALF_DONE, Sequence((Do(False, False),) * 4)), is_timed=False)), [], False, None, None, 0)
def test_a_tree_of_joins_gives_what_the_model_says_and_keeps_or_undoes_what_it_did(
    site: Site,
    tree: Node,
    order: list[int],
    duplicate: bool,
    cancel_at: int | None,
    signal_at: int | None,
    deaths: int,
) -> None:
    handle = site.begin(tree, duplicate=duplicate)

    site.play(handle, order, cancel_at=cancel_at, signal_at=signal_at, deaths=deaths)

    status = handle.refresh().status.value
    if status == "completed":
        assert not errors(tree)
        assert admits(tree, handle.wait(0))
    elif status == "failed":
        with pytest.raises(RunFailed):
            handle.wait(0)
        assert isinstance(handle.error, Boom)
        assert str(handle.error) in errors(tree)
    else:
        assert (status, cancel_at is None) == ("cancelled", False)
    assert list(site.performer.won.values()).count("go") <= (signal_at is not None)
    check_what_was_done(site, handle, tree, is_kept=status == "completed")
    assert site.house.store.without_wake_up() == []


def check_what_was_done(site: Site, handle: Any, tree: Node, *, is_kept: bool) -> None:
    """No task ran twice or needlessly; each undo ran once where it had to, in its place, and no other did."""
    store = site.house.store
    rows = store.steps(handle.id)
    assert [x.key for x in rows if not x.status.is_end] == []
    calls = Counter(site.calls)
    assert site.deaths or max(calls.values(), default=1) == 1
    assert {x.removeprefix("do ") for x in calls if x.startswith("do ")} <= reachable(tree)

    lost = lost_arms(rows)
    undone = [x for x in rows if is_to_be_undone(x, is_kept=is_kept and not any(is_inside(x.key, a) for a in lost))]
    expected = undos(undone)
    for child in [x for x in rows if x.kind is StepKind.CHILD and x.task_id]:
        child_id = child.task_id or ""
        status = site.house.engine.run_of(child_id).status
        if child.status is StepStatus.DONE:
            assert status is (RunStatus.CANCELLED if child in undone else RunStatus.COMPLETED)
        is_done = status is RunStatus.COMPLETED
        expected += undos(x for x in store.steps(child_id) if is_to_be_undone(x, is_kept=is_done))
    assert {x for x in calls if x.startswith("undo ")} == set(expected)
    if not (site.deaths or has_race(tree) or any(x.kind is StepKind.CHILD for x in rows)):
        last_first = sorted(undone, key=lambda x: -(x.seq or 0))
        assert [x for x in site.calls if x.startswith("undo ")] == undos(last_first)


def is_to_be_undone(step: StepRecord, *, is_kept: bool) -> bool:
    """It succeeded or may have, and is not kept; what failed and may have left something is never kept."""
    if step.status in (StepStatus.FAILED, StepStatus.LOST):
        return step.maybe
    return not is_kept and (step.status is StepStatus.DONE or step.maybe)


def undos(steps: Iterable[StepRecord]) -> list[str]:
    """What the undos of these steps write down."""
    return [f"undo {x.args[0]}" for x in steps if x.kind is StepKind.STEP and StepSpec.from_text(x.spec_text).undo]


def lost_arms(rows: list[StepRecord]) -> list[str]:
    """Keys of the arms of races that are over, but for the one that came in first."""
    lost: list[str] = []
    for race in [x for x in rows if x.task == "race" and x.status is StepStatus.DONE]:
        arms = [x for x in rows if x.join_key == race.key]
        first = min((x for x in arms if x.status is StepStatus.DONE), key=lambda x: x.seq or 0)
        lost += [x.key for x in arms if x.key != first.key]
    return lost
