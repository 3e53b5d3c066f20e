"""A pass that only looks: it never calls a function whose value is not recorded yet."""

from __future__ import annotations

from typing import Any

from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replay import Replay

__all__ = ["Preview"]


class Preview(Replay):
    """A pass whose decision nobody writes.

    Where the body would record a value for the first time, the pass is over: the function that makes the value is the
    user's, and may cost or do something. Nothing is missed by that: what is recorded lies before that place.
    """

    def ask(self, kind: StepKind, name: str, **question: Any) -> StepRecord | Order:
        """See `Replay.ask`."""
        if kind is StepKind.RECORD:
            question["make"] = self.suspend
        return super().ask(kind, name, **question)
