"""Small sagas that start another one as a step, whose every interleaving is walked through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_saga.core.children import args_of_input
from celery_saga.core.decision import Decision
from celery_saga.core.failure import Failure
from celery_saga.core.orders import ChildSpec, StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.replay import Replay, decide
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from tests.model.joins import join, task
from tests.model.sagas import SAGA, SAGA_VERSION, Declined, Fault, Scenario, _rebuild, step
from tests.model.scopes import scope

CHILD_SAGA = "child"


def order() -> Order:
    """The child, as a call of a body or as a part of a join."""
    spec = StepSpec(child=ChildSpec(SAGA_VERSION, ""))
    args_text = args_of_input("[[],{}]")
    return Order(StepKind.CHILD, "", "", 0, task=CHILD_SAGA, args_text=args_text, spec_text=spec.to_text())


def child(run: Replay) -> None:
    """Start the child, or go on where it has completed, or raise where it has not."""
    got = run.ask(StepKind.CHILD, "c", task=CHILD_SAGA, make=order)
    assert isinstance(got, StepRecord)
    if got.status is not StepStatus.DONE:
        raise run.failed(got)


def does_x(run: Replay) -> str:
    step(run, "x")
    return "null"


def only_a_child(run: Replay) -> str:
    child(run)
    return "null"


def a_step_first(run: Replay) -> str:
    step(run, "a")
    child(run)
    return "null"


def a_step_then(run: Replay) -> str:
    child(run)
    step(run, "b")
    return "null"


def does_without(run: Replay) -> str:
    try:
        child(run)
    except (Declined, Fault):
        step(run, "b")
    return "null"


def in_a_group(run: Replay) -> str:
    """The failure of a sibling aborts the child."""
    try:
        join(run, {"c": order(), "q": task("q", undo=False)})
    except Declined:
        step(run, "b")
    return "null"


def races(run: Replay) -> str:
    """The child, or a step that is quicker."""
    join(run, {"c": order(), "q": task("q")}, on_failure="race")
    return "null"


def in_a_scope(run: Replay) -> str:
    """The child is undone with the scope, and the body goes on."""
    try:
        with scope(run, "s"):
            child(run)
            step(run, "b")
    except Declined:
        step(run, "d")
    return "null"


@dataclass(frozen=True)
class FamilyScenario(Scenario):
    """As any; `child_body` is what the child does."""

    child_body: Callable[[Replay], str] = does_x

    def decide(self, snapshot: Snapshot, now: datetime, live: Any = None, region: str = "") -> Decision | None:
        body = self.body if snapshot.run.saga == SAGA else self.child_body
        return decide(body, Replay(snapshot, now, _rebuild, live, region), (Declined,))

    def known(self) -> list[tuple[str, int]]:
        return [(SAGA, SAGA_VERSION), (CHILD_SAGA, SAGA_VERSION)]

    def is_declared(self, run: RunRecord, error: Failure) -> bool:
        return False


_OK, _FAILED = ("completed",), ("failed",)

CHILDREN = (
    FamilyScenario("a child", only_a_child, _OK, 1_300, faults=1),
    FamilyScenario("a child that fails", a_step_first, _FAILED, 2_450, fails={"x": -1}, faults=1),
    FamilyScenario("a child is undone", a_step_then, _FAILED, 8_600, fails={"b": -1}, faults=1),
    FamilyScenario("a child that is done without", does_without, _OK, 2_200, fails={"x": -1}, faults=1),
    FamilyScenario(
        "a parent is cancelled", only_a_child, ("completed", "cancelled"), 51_000, events=("cancel",), faults=1
    ),
    FamilyScenario(
        "a child is cancelled", only_a_child, ("completed", "failed"), 8_000, events=("cancel child",), faults=1
    ),
    FamilyScenario("a child in a group", in_a_group, _OK, 4_800, fails={"j[q]": -1}, faults=0),
    FamilyScenario("a child in a race", races, _OK, 12_000, faults=0),
    FamilyScenario("a child in a scope", in_a_scope, _OK, 17_500, fails={"s/b": -1}, faults=1),
)
