"""A house whose coordinator executes steps itself, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from celery_saga.client import purity
from celery_saga.core.attempts import Outcome
from celery_saga.core.orders import RunSpec, StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.ports import Claimed
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Limits, Message, RunMessage
from tests.scenarios.house import House, Place


class Parlour(House):
    """A house that takes each step inline whose `dispatch=`, or whose saga's, says so."""

    owner = "parlour:1"

    def __init__(self, place: str | Place, *, duplicate: bool = False, limits: Limits | None = None) -> None:
        super().__init__(place, duplicate=duplicate, limits=limits)
        self.executed: list[str] = []
        self.sent: list[str] = []
        self.ends_after = 1_000_000
        self.engine = self.another_engine()

    def another_engine(self, **options: Any) -> Engine:
        """One more process's engine."""
        return Engine(self.store, self, self.registry, self.engine.limits, takes_inline=self.takes, **options)

    @staticmethod
    def takes(run: RunRecord, order: Order) -> bool:
        """As a worker does, without looking at the task."""
        spec = StepSpec.from_text(order.spec_text)
        word = spec.dispatch or RunSpec.from_text(run.spec_text).dispatch
        return order.kind is StepKind.STEP and word == "inline" and not spec.options and not spec.remote

    def publish(self, messages: Sequence[Message]) -> int:
        assert not purity.is_in_body(), "nothing can be sent from inside a body"
        return super().publish(messages)

    def deliver(self, message: Message) -> None:
        if isinstance(message, RunMessage):
            self.sent.append("run")
            self.engine.coordinate(message.run.id, Delivery(self), part=message.part_ref)
        else:
            self.sent.append(message.step.key)
            super().deliver(message)


class Executes(Protocol):
    """A house that executes steps inline, and after how many a delivery ends."""

    owner: str
    executed: list[str]
    ends_after: int

    def execute(self, claimed: Claimed) -> Outcome: ...


class Delivery:
    """The engine's `Inline` of one delivery."""

    def __init__(self, house: Executes) -> None:
        self.owner = house.owner
        self._house = house
        self._executed = 0

    def execute(self, claimed: Claimed) -> Outcome:
        self._executed += 1
        self._house.executed.append(claimed.step.key)
        with purity.outside():
            return self._house.execute(claimed)

    def is_over(self, elapsed_s: float) -> bool:
        return self._executed >= self._house.ends_after
