"""Random walks: whatever comes in which order, a cap holds at every moment, and in the end all runs have ended."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from celery_saga import Lane, RateLimited, Retry, Run, RunHandle, SignalExpired
from celery_saga.core.ports import Claimed, RunFilter
from celery_saga.core.records import StepKind
from celery_saga.engine import lanes
from celery_saga.engine.ports import RunMessage
from tests.lanes.yard import Yard
from tests.scenarios.house import House, Place

CAP = {"A": 1, "B": 2, "*": 3}
_ACTIONS = 90


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A database in memory with our tables."""
    built = Place("sqlite://")
    yield built
    built.store.close()


class Walk:
    """One walk: `act` does something, `check` tells whether a cap is exceeded, `finish` lets everything end."""

    def __init__(self, house: House, seed: int) -> None:
        self.house, self.yard, self.draw = house, Yard(house), random.Random(seed)
        self.held: list[Claimed] = []
        self.runs: list[RunHandle[object]] = []
        self.paused = False

        def body(run: Run, name: str) -> None:
            do = self.yard.do
            run.step(do.si(f"{name} 1"), undo=self.yard.undo.si(f"{name} 1"))
            run.wait_signal("go", timeout=120, default=None)
            run.group(
                do.si(f"{name} 2"),
                lambda part: part.step(do.si(f"{name} 3"), retry=Retry(3, delay=20, jitter=False)),
            )

        self.saga = self.yard.saga(body, name="walked")
        lanes.set_lane(self.yard.world, "*", lanes.LaneSpec(cap=CAP["*"]))
        self.lanes = [Lane("A", cap=1), Lane("B", cap=2, hold="life")]

    def act(self) -> None:
        moves: list[Callable[[], object]] = [self.start, self.signal, self.cancel, self.pause, self.sweep]
        moves += [self.deliver] * 8 if self.house.messages else []
        moves += [self.finish_one] * 6 if self.held else []
        self.draw.choice(moves)()

    def start(self) -> None:
        name = f"r{len(self.runs)}"
        if len(self.runs) < 7:
            chosen = self.saga.options(lane=self.draw.choice(self.lanes), priority=self.draw.randrange(3))
            if self.draw.random() < 0.3:
                kind = self.draw.choice([ValueError("again"), RateLimited(15)])
                self.yard.fail[f"{name} 3"] = [kind]
            self.runs.append(chosen.start(name))

    def deliver(self) -> None:
        message = self.house.messages.pop(self.draw.randrange(len(self.house.messages)))
        if self.draw.random() < 0.05:
            return  # the broker has lost it
        if isinstance(message, RunMessage):
            self.house.deliver(message)
        elif (claimed := self.house.claim(message.step, "walk:1")) is not None:
            self.held.append(claimed)

    def finish_one(self) -> None:
        self.house.finish(self.held.pop(self.draw.randrange(len(self.held))))

    def signal(self) -> None:
        if self.runs:
            try:
                self.draw.choice(self.runs).signal("go")
            except SignalExpired:
                return

    def cancel(self) -> None:
        if self.runs and self.draw.random() < 0.15:
            self.draw.choice(self.runs).cancel()

    def pause(self) -> None:
        name = "lane:A"
        if self.paused:
            lanes.unpause(self.yard.world, name)
            self.paused = False
        elif self.draw.random() < 0.4:
            lanes.pause(self.yard.world, name, by=None, reason="")
            self.paused = True

    def sweep(self) -> None:
        self.house.now += timedelta(seconds=self.draw.choice([1, 7, 31]))
        for claimed in self.held:
            self.house.engine.renew(claimed)
        self.house.engine.sweep()

    def check(self) -> None:
        """Of each lane no more runs have a forward attempt running than its cap says."""
        active: dict[str, str] = {}
        for run in self.house.store.runs(RunFilter(limit=100)):
            steps = self.house.store.steps(run.id)
            if any(x.status.value == "running" and x.kind is not StepKind.UNDO for x in steps):
                active[run.id] = run.lane or ""
        used = Counter(active.values())
        assert all(number <= CAP[lane] for lane, number in used.items()), used
        assert len(active) <= CAP["*"], active
        assert self.house.store.without_wake_up() == []

    def finish(self) -> None:
        lanes.unpause(self.yard.world, "lane:A")
        for claimed in self.held:
            self.house.finish(claimed)
        for _ in range(40):
            self.house.drain()
            if not self.house.store.live_versions():
                break
            self.house.advance(31)
        assert self.house.store.live_versions() == []
        self.house.advance(31)
        assert {(load.used, load.queued) for load in lanes.lanes(self.yard.world)} == {(0, 0)}


@pytest.mark.parametrize("seed", range(40))
def test_a_cap_holds_at_every_moment_and_everything_ends(place: Place, seed: int) -> None:
    place.empty()
    with House(place) as house:
        walk = Walk(house, seed)
        for _ in range(_ACTIONS):
            walk.act()
            walk.check()
        walk.finish()
