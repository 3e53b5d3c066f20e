"""A house whose process dies, or is stopped for longer than a lease, at a chosen point; the next process takes over.

Points are counted as they are passed: before and after every SQL statement, commit, publish and effect. `Died` is a
BaseException, as death is: nothing between the point and the harness may survive it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from celery_saga import Retry, Run, Saga, SignalDuplicate, current_step, saga
from celery_saga.client import binding
from celery_saga.core.ports import Claimed, RunFilter
from celery_saga.core.records import Action
from celery_saga.core.status import RunStatus
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Limits, Message, RunMessage
from tests.inline.parlour import Delivery, Parlour
from tests.scenarios.house import House, Place
from tests.scenarios.shop import GatewayTimeout, OutOfStock

LEASE_S = 30.0


class Died(BaseException):
    """The process was killed."""


@dataclass
class Outside:
    """The outside world: effects by name and idempotency key, in order, with repeats."""

    effects: list[tuple[str, str]] = field(default_factory=list)

    def first(self) -> list[str]:
        """Names of the effects in the order in which each first happened."""
        return [name for name, _ in dict.fromkeys(self.effects)]

    def keys(self, name: str) -> set[str]:
        return {key for effect, key in self.effects if effect == name}


class DyingHouse(House):
    """A house that dies at point `at` (counted from 0); `at=None` never does, and counts the points.

    Steps of a saga with `dispatch="inline"` are executed by whoever coordinates the run.
    """

    owner = "house:1"
    ends_after = 1_000_000

    def __init__(self, place: Place, *, at: int | None = None) -> None:
        place.empty()
        self.at: int | None = None
        self.stop_at: int | None = None
        self.half_way = False
        self.cancel_in: str | None = None
        self.begun: list[Claimed] = []
        self.passed = 0
        self.labels: list[str] = []
        self.deaths = 0
        self.outside = Outside()
        self.executed: list[str] = []
        super().__init__(place, limits=Limits(lease_s=LEASE_S, max_stalls=5, inline_slice_s=600.0))
        self.engine = self._another_engine()
        self.at = at
        self.store.trace = self.point
        _tasks(self)

    def _another_engine(self) -> Engine:
        return Engine(self.store, self, self.registry, self.engine.limits, takes_inline=Parlour.takes)

    def deliver(self, message: Message) -> None:
        if isinstance(message, RunMessage):
            self.engine.coordinate(message.run.id, Delivery(self), part=message.part_ref)
        else:
            super().deliver(message)

    def point(self, label: str) -> None:
        """One point; the process dies here, or is stopped, when its number has come."""
        if self.passed == self.at:
            self.at = None
            self.deaths += 1
            raise Died(label)
        self.passed += 1
        self.labels.append(label)
        if self.passed == self.stop_at:
            self.stop_at = None
            self.others()

    def others(self) -> None:
        """This process is stopped for longer than its lease; another one goes on with what it finds.

        With `half_way` the other has only claimed what there is to claim by the time this process goes on.
        """
        mine, self.engine = self.engine, self._another_engine()
        self.now += timedelta(seconds=LEASE_S + 1)
        if self.half_way:
            self.engine.sweep()
            while self.messages:
                message = self.messages.pop(0)
                if isinstance(message, RunMessage):
                    self.engine.coordinate(message.run.id, part=message.part_ref)
                    continue
                step = message.step
                claimed = self.engine.claim(step.run_id, step.generation, step.key, owner="house:2")
                if claimed is not None:
                    self.begun.append(claimed)
                    break
        else:
            self.sweep()
        self.engine = mine

    def drain(self, *, limit: int = 1000) -> None:
        super().drain(limit=limit)
        while self.begun:
            self.finish(self.begun.pop(0))
            super().drain(limit=limit)

    def publish(self, messages: Sequence[Message]) -> int:
        for message in messages:
            self.point("before:publish")
            super().publish([message])
            self.point("after:publish")
        return len(messages)

    def effect(self, name: str) -> None:
        """What a task does to the outside world, with the key that it gives there."""
        self.point(f"before:effect {name}")
        if name == self.cancel_in:
            run = self.engine.run_of(current_step.run_id)
            self.engine.cancel(run.parent_id or run.id, reason="changed my mind")
            self.cancel_in = None
            self.sweep()
        self.outside.effects.append((name, current_step.idempotency_key))
        self.point(f"after:effect {name}")

    def revive(self) -> None:
        """The next process: nothing in memory is left but what the broker holds; the lease of the dead one ends."""
        self.engine = self._another_engine()
        self.advance(LEASE_S + 1)


def _tasks(house: DyingHouse) -> None:
    task = house.task

    @task("crash.reserve")
    def reserve(order: str) -> str:
        house.effect("reserve")
        return f"held {order}"

    @task("crash.release")
    def release(order: str) -> None:
        house.effect("release")

    @task("crash.charge")
    def charge(cents: int) -> str:
        house.effect("charge")
        return "ch_1"

    @task("crash.refund")
    def refund(charge_id: str | None) -> None:
        house.effect("refund")

    @task("crash.dispatch")
    def dispatch(order: str) -> None:
        house.effect("dispatch")
        if order == "none-left":
            raise OutOfStock(order)

    @task("crash.pack")
    def pack(order: str) -> None:
        house.effect("pack")

    @task("crash.unpack")
    def unpack(order: str) -> None:
        house.effect("unpack")

    @task("crash.post")
    def post(order: str) -> None:
        house.effect("post")
        if order == "unposted":
            raise OutOfStock(order)


def checkout(house: DyingHouse, dispatch: str = "broker") -> Saga[Any, Any]:
    """The checkout saga, with a wait and a sleep where its order asks for them."""
    tasks = house.app.tasks

    @saga(name="crash-checkout", key="{order}", errors=[GatewayTimeout, OutOfStock], dispatch=dispatch)  # type: ignore[call-overload, untyped-decorator]
    def body(run: Run, order: str, cents: int) -> str:
        run.step(tasks["crash.reserve"].si(order), undo=tasks["crash.release"].si(order))
        if order == "asks":
            run.wait_signal("approval")
        if order == "sleeps":
            run.sleep(60)
        charge_id = run.step(tasks["crash.charge"].si(cents), undo=tasks["crash.refund"].s(), retry=Retry(3, delay=0))
        run.step(tasks["crash.dispatch"].si(order))
        return charge_id

    return body


def parent_of(house: DyingHouse, child: Saga[Any, Any], dispatch: str) -> Saga[Any, Any]:
    """A saga that has the checkout as a step, as a run of its own."""
    tasks = house.app.tasks

    @saga(name="crash-parent", key="{order}", errors=[GatewayTimeout, OutOfStock], dispatch=dispatch)  # type: ignore[call-overload, untyped-decorator]
    def body(run: Run, order: str, cents: int) -> str:
        run.step(tasks["crash.pack"].si(order), undo=tasks["crash.unpack"].si(order))
        charge_id: str = run.child(child, order, cents)
        run.step(tasks["crash.post"].si(order))
        return charge_id

    return body


@dataclass(frozen=True)
class Story:
    """One way through the saga: its order, and what the client does besides starting it."""

    order: str
    end: RunStatus
    undos: tuple[str, ...] = ()
    cancel_in: str | None = None  # the effect during which somebody cancels
    dispatch: str = "broker"
    is_child: bool = False  # the checkout is the child of another run


STORIES = {
    "success": Story("fine", RunStatus.COMPLETED),
    "failure": Story("none-left", RunStatus.FAILED, ("refund", "release")),
    "signal": Story("asks", RunStatus.COMPLETED),
    "timer": Story("sleeps", RunStatus.COMPLETED),
    "cancel": Story("fine", RunStatus.CANCELLED, ("refund", "release"), cancel_in="charge"),
}


STORIES |= {f"{name}, inline": replace(story, dispatch="inline") for name, story in STORIES.items()}
STORIES |= {
    "child": Story("fine", RunStatus.COMPLETED, is_child=True),
    "child, failure": Story("none-left", RunStatus.FAILED, ("refund", "release", "unpack"), is_child=True),
    "child, undone": Story("unposted", RunStatus.FAILED, ("refund", "release", "unpack"), is_child=True),
    "child, cancel": Story(
        "fine", RunStatus.CANCELLED, ("refund", "release", "unpack"), cancel_in="charge", is_child=True
    ),
    "child, inline": Story(
        "unposted", RunStatus.FAILED, ("refund", "release", "unpack"), dispatch="inline", is_child=True
    ),
}


def tell(house: DyingHouse, story: Story) -> str:
    """Live through the story, reviving as often as the process dies; the id of the run."""
    body = checkout(house, story.dispatch)
    house.add(body)
    if story.is_child:
        body = parent_of(house, body, story.dispatch)
        house.add(body)
    house.cancel_in = story.cancel_in
    binding.set_resolver(lambda _saga: house)
    dead = False
    for _ in range(12):
        try:
            if dead:
                house.revive()
            dead = False
            run_id = body.start(story.order, 500).id
            house.drain()
            _meanwhile(house, run_id, story)
            if _status(house, run_id).is_end:
                house.store.trace = None
                return run_id
            house.advance(LEASE_S + 1)
        except Died:
            dead = True
    raise AssertionError(f"never ended: {house.labels[-30:]}")


def _status(house: DyingHouse, run_id: str) -> RunStatus:
    loaded = house.store.load(run_id)
    assert loaded is not None
    return loaded.snapshot.run.status


def _meanwhile(house: DyingHouse, run_id: str, story: Story) -> None:
    if story.order == "asks" and not _status(house, run_id).is_end:
        with suppress(SignalDuplicate):
            house.engine.signal(run_id, "approval", signal_id="only-one")
        house.drain()
    if story.order == "sleeps":
        house.advance(61)


def check(house: DyingHouse, run_id: str, story: Story, reference: Sequence[str]) -> None:
    """What must hold whatever died where."""
    loaded = house.store.load(run_id)
    assert loaded is not None
    s = loaded.snapshot
    assert s.run.status is story.end
    assert _sure(house.outside.first(), story) == _sure(reference, story)
    undone = [name for name in house.outside.first() if name in ("refund", "release", "unpack")]
    assert undone == list(story.undos)
    for name in house.outside.first():
        assert len(house.outside.keys(name)) == 1, f"{name}: one idempotency key per logical call"
    history = house.store.history(run_id)
    assert [row.seq for row in history] == list(range(1, len(history) + 1))
    for step in s.steps.values():
        oks = [row for row in history if row.step == step.key and row.action in (Action.OK, Action.SIGNAL)]
        assert len(oks) == (step.status == "done"), f"{step.key}: one checkpoint"
    for key in s.steps:
        successes = [attempt for name, attempt, success in house.landed if name == key and success]
        assert len(successes) <= 1, f"{key}: attempts {successes} were all checked in"
    assert house.store.without_wake_up() == []
    left = [run for run in house.store.runs(RunFilter()) if not run.status.is_end]
    assert left == [], "a child outlived its parent"


def _sure(effects: Sequence[str], story: Story) -> list[str]:
    """Without the effect that was cancelled in: whether it happened depends on when the process died."""
    return [name for name in effects if name != story.cancel_in]


def outside_transactions(labels: Sequence[str]) -> list[int]:
    """How many points had been passed at each one between two transactions: where a process may be stopped."""
    free = ("after:commit", "before:effect", "after:effect", "before:publish", "after:publish")
    return [number for number, label in enumerate(labels, start=1) if label.startswith(free)]
