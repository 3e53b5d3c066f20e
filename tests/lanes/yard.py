"""A task that writes down who called it, and ways to look at runs and lanes, in one house."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_saga import Run, Saga, saga
from celery_saga.core.lanes import LaneLoad
from celery_saga.core.ports import Claimed
from celery_saga.engine import lanes
from celery_saga.engine.ports import StepMessage
from tests.scenarios.house import House


class Yard:
    """Args: house: whose sagas these are."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.done: list[str] = []
        self.fail: dict[str, list[Exception]] = {}

        @house.task("yard.do")
        def do(name: str) -> str:
            if self.fail.get(name):
                raise self.fail[name].pop(0)
            self.done.append(name)
            return name

        @house.task("yard.undo")
        def undo(name: str) -> None:
            self.done.append(f"undo {name}")

        self.do, self.undo = do, undo

    def saga(self, body: Callable[..., Any] | None = None, **options: Any) -> Saga[Any, Any]:
        """A saga over `body`, or over one step that is called like the run."""
        do = self.do

        def one(run: Run, name: str) -> str:
            return run.step(do.si(name))

        made = saga(**{"name": (body or one).__name__, **options})(body or one)
        self.house.add(made)
        return made

    @property
    def world(self) -> Any:
        return self.house.engine.world

    def admission(self, run_id: str) -> str:
        return self.house.engine.run_of(run_id).admission

    def status(self, run_id: str) -> str:
        return self.house.engine.run_of(run_id).status.value

    def lane(self, name: str) -> LaneLoad:
        return {load.lane.name: load for load in lanes.lanes(self.world)}[name]

    def lane_names(self) -> list[str]:
        return [load.lane.name for load in lanes.lanes(self.world)]

    def steps_in_mail(self) -> list[str]:
        """Runs of which a step's message is under way."""
        return [each.run.id for each in self.house.messages if isinstance(each, StepMessage)]

    def claim_all(self) -> list[Claimed]:
        """Coordinate all runs and claim every step that may begin; nothing is executed yet."""
        claimed: list[Claimed] = []
        house = self.house
        while house.messages:
            message = house.messages.pop(0)
            if isinstance(message, StepMessage):
                got = house.claim(message.step, "yard:1")
                claimed += [got] if got is not None else []
            else:
                house.deliver(message)
        return claimed
