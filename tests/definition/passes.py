"""A body's passes by hand: records made as the engine makes them, without store, broker or clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from celery_saga.core import codec, decision, failure
from celery_saga.core.decision import Completed, Decision, Raised
from celery_saga.core.records import RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.definition.registry import Registry
from celery_saga.definition.saga import Saga

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Passes:
    """One run of one saga."""

    def __init__(self, saga: Saga[Any, Any], *args: Any, max_payload_bytes: int = 1_000_000, **kwargs: Any) -> None:
        self.registry = Registry([saga], max_payload_bytes=max_payload_bytes)
        text, digest = saga.payload.encode(saga.payload.bind(args, kwargs))
        self.snapshot = Snapshot(
            RunRecord(
                "run-1",
                saga.name,
                saga.version,
                None,
                RunStatus.QUEUED,
                NOW,
                NOW,
                input_text=text,
                input_digest=digest,
                spec_text=saga.settings.spec_text(),
            )
        )

    def decide(self) -> Decision:
        """One pass; writes nothing."""
        decided = self.registry.decide(self.snapshot, NOW)
        assert decided is not None
        return decided

    def order(self) -> list[decision.Order]:
        """One pass, and its orders written."""
        decided = self.decide()
        assert decided.end is None, decided.end
        self.snapshot = decision.apply(self.snapshot, decided, NOW, 30.0)
        return list(decided.orders)

    def done(self, key: str, result: object = None) -> None:
        """Write the step's result."""
        self._settle(key, status=StepStatus.DONE, result_text=codec.encode(result))

    def fail(self, key: str, error: BaseException, status: StepStatus = StepStatus.FAILED) -> None:
        """Write the step's error."""
        self._settle(key, status=status, error_text=failure.to_text(failure.capture(error)), attempt=3)

    def result(self) -> Any:
        """What the body returned in this pass."""
        end = self.decide().end
        assert isinstance(end, Completed), end
        return codec.decode(end.result_text)

    def raised(self) -> Raised:
        """How the body was left by an exception in this pass."""
        end = self.decide().end
        assert isinstance(end, Raised), end
        return end

    def _settle(self, key: str, **changes: Any) -> None:
        self.snapshot = self.snapshot.with_step(replace(self.snapshot.steps[key], ended_at=NOW, **changes))
