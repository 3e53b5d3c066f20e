"""Random bodies of scopes, shields, pivots and joins: lost, cancelled, suspended and retried, they end well.

A body is made of a seed, messages are delivered in any order, attempts are lost before and after their effect. What
must hold at each rest: a run that failed or was cancelled has undone all it did, last in first out where one thing
followed the other, and holds no shield; and retried often enough, each run completes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from celery_saga import IllegalTransition, Retry, Run, RunHandle, saga, step
from celery_saga.core.ports import Claimed
from celery_saga.core.records import StepKind
from celery_saga.engine.ports import Limits, RunMessage
from tests.inline.parlour import Parlour
from tests.scenarios.house import House, Place

SEEDS = range(16)


class Boom(Exception):
    """Declared."""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """One in memory: what is decided does not depend on the store."""
    built = Place("sqlite://")
    yield built
    built.store.close()


@dataclass(frozen=True)
class Node:
    """A step, or a section with what is in it."""

    kind: str  # step, scope, group, race, shield, pivot
    inside: tuple[tuple[Node, ...], ...] = ()
    has_undo: bool = True
    fails: bool = False
    is_caught: bool = True
    concurrency: int | None = None
    on_failure: str = "abort"


def nodes(draw: random.Random, depth: int, *, joins: bool) -> tuple[Node, ...]:
    """What one scope has in it."""
    return tuple(_node(draw, depth, joins=joins) for _ in range(draw.randint(1, 4)))


def _node(draw: random.Random, depth: int, *, joins: bool) -> Node:
    kinds = ["step"] * 3 + (["scope", "scope", "shield"] + (["group", "group", "race"] if joins else [])) * bool(depth)
    kind = draw.choice(kinds)
    width = {"step": 0, "group": draw.randint(1, 3), "race": 2}.get(kind, 1)
    return Node(
        kind,
        tuple(nodes(draw, depth - 1, joins=joins) for _ in range(width)),
        has_undo=draw.random() < 0.7,
        fails=draw.random() < 0.25,
        is_caught=draw.random() < 0.5,
        concurrency=draw.choice([None, 1, 2]),
        on_failure=draw.choice(["abort", "abort", "collect"]),
    )


@dataclass
class Scene:
    """One house, one run, and what its tasks wrote down."""

    house: House
    draw: random.Random
    calls: list[tuple[str, str]] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    out_of_order: list[str] = field(default_factory=list)
    claimed: list[Claimed] = field(default_factory=list)
    is_linear: bool = False
    moves: int = 0

    def __post_init__(self) -> None:
        @self.house.task("random.do")
        def do(label: str, fails: bool) -> None:
            if fails and not self.failed[label]:
                self.failed[label] += 1
                raise Boom(label)
            self.calls.append(("do", label))

        @self.house.task("random.undo")
        def undo(label: str) -> None:
            later = list(self.done())
            if self.is_linear and label in later and later[-1] != label:
                self.out_of_order.append(f"{label} before {later[-1]}")
            self.calls.append(("undo", label))

        self.do, self.undo = do, undo

    def done(self) -> dict[str, None]:
        """Labels of effects that are there and have an undo, in the order in which they came."""
        there: dict[str, None] = {}
        for what, label in self.calls:
            there.pop(label, None)
            if what == "do" and label.endswith("u"):
                there[label] = None
        return there

    # -- the body ------------------------------------------------------------------------------------------------
    def go(self, run: Run, inside: tuple[Node, ...], path: str) -> None:
        for number, node in enumerate(inside):
            try:
                self._one(run, node, f"{path}.{number}")
            except Boom:
                if not (node.is_caught and node.inside):
                    raise

    def _one(self, run: Run, node: Node, path: str) -> None:
        if node.kind == "step":
            label = f"{path}{'u' if node.has_undo else ''}"
            sig = self.do.si(label, node.fails)
            run.step(step(sig, undo=self.undo.si(label)) if node.has_undo else sig)
        elif node.kind == "pivot":
            run.pivot()
        elif node.kind == "scope":
            with run.scope("sc"):
                self.go(run, node.inside[0], path)
        elif node.kind == "shield":
            with run.shield():
                self.go(run, node.inside[0], path)
        else:
            parts = {f"p{n}": self._part(each, f"{path}.{n}") for n, each in enumerate(node.inside)}
            if node.kind == "race":
                run.race(**parts)
            else:
                on_failure: Any = node.on_failure
                run.group(parts, concurrency=node.concurrency, on_failure=on_failure)

    def _part(self, inside: tuple[Node, ...], path: str) -> Any:
        return lambda run: self.go(run, inside, path)

    # -- the world -----------------------------------------------------------------------------------------------
    def move(self) -> None:
        """Deliver one message, or end one attempt."""
        house, draw = self.house, self.draw
        self.moves += 1
        assert self.moves < 5000, "it never comes to rest"
        if self.claimed and (not house.messages or draw.random() < 0.4):
            attempt = self.claimed.pop(draw.randrange(len(self.claimed)))
            if draw.random() < 0.06:
                if draw.random() < 0.5:
                    house.execute(attempt)
                house.engine.end_attempt(attempt.step.run_id, attempt.step.key, attempt.step.claim_token)
            else:
                house.finish(attempt)
            return
        message = house.messages.pop(draw.randrange(len(house.messages)))
        if isinstance(message, RunMessage):
            house.deliver(message)
        elif (claimed := house.claim(message.step, "house:1")) is not None:
            self.claimed.append(claimed)

    def rest(self, handle: RunHandle[Any], cancel_at: int, suspend_at: set[int]) -> str:
        """Move on until nothing moves any more; the run's status."""
        for _ in range(10):
            while self.house.messages or self.claimed:
                self.move()
                if self.moves == cancel_at:
                    handle.cancel()
                if self.moves in suspend_at:
                    try:
                        handle.suspend()
                    except IllegalTransition:
                        continue  # it has ended
            self.house.now += timedelta(seconds=40)
            while self.house.engine.sweep() and not self.house.messages:
                pass
        return handle.refresh().status.value


def check(scene: Scene, handle: RunHandle[Any], status: str) -> None:
    """What must hold at each rest."""
    run = scene.house.engine.run_of(handle.id)
    assert status in ("completed", "failed", "cancelled", "suspended"), [
        (x.key, x.status.value) for x in scene.house.store.steps(handle.id) if not x.status.is_end
    ]
    assert status == "suspended" or (run.shields, run.pending_text) == (0, None)
    assert scene.out_of_order == []
    if status in ("failed", "cancelled"):
        assert list(scene.done()) == []
        assert not run.pivoted


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["joins", "linear", "inline"])
def test_random_sections_end_well(place: Place, kind: str, seed: int) -> None:
    draw = random.Random(f"{kind}{seed}")
    tree = list(nodes(draw, 3, joins=kind == "joins"))
    if draw.random() < 0.3:
        tree.insert(draw.randint(0, len(tree)), Node("pivot"))
    place.empty()
    built = Parlour if kind == "inline" else House
    with built(place, duplicate=draw.random() < 0.3, limits=Limits(max_stalls=4)) as house:
        scene = Scene(house, draw, is_linear=kind != "joins")
        options: Any = {
            "on_failure": draw.choice(["compensate", "compensate", "suspend"]),
            "retry": draw.choice([None, None, Retry(2, delay=0, jitter=False)]),
            "dispatch": "inline" if kind == "inline" else None,
        }

        @saga(name="random", errors=[Boom], **options)
        def body(run: Run) -> None:
            scene.go(run, tuple(tree), "r")

        house.add(body)
        handle = body.start()
        cancel_at = draw.randint(1, 40) if draw.random() < 0.4 else 0
        suspend_at = {draw.randint(1, 40) for _ in range(2)} if draw.random() < 0.4 else set()
        for _ in range(40):
            status = scene.rest(handle, cancel_at, suspend_at)
            check(scene, handle, status)
            if status == "completed":
                return
            if status == "suspended":
                handle.resume()
                continue
            keys = [x.key for x in house.store.steps(handle.id) if x.kind in (StepKind.STEP, StepKind.JOIN)]
            handle.retry(from_step=draw.choice([None, *keys]))
        pytest.fail("it never completes")
