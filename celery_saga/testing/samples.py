"""Records to fill a store with, in tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from celery_saga.core.records import RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2099, 1, 1, tzinfo=UTC)


def new_id() -> str:
    """A run id, or a token, that no other test uses."""
    return str(uuid4())


def a_run(**fields: Any) -> RunRecord:
    """A run that is running and waits for nothing in time; `fields` go over that."""
    plain: dict[str, Any] = {
        "id": new_id(),
        "saga": "checkout",
        "version": 1,
        "key": None,
        "status": RunStatus.RUNNING,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "input_text": "{}",
    }
    return RunRecord(**{**plain, **fields})


def a_step(run_id: str, key: str = "charge", **fields: Any) -> StepRecord:
    """A step that was sent once and is to be sent again far ahead; `fields` go over that."""
    plain: dict[str, Any] = {
        "generation": 1,
        "kind": StepKind.STEP,
        "status": StepStatus.SCHEDULED,
        "created_at": LONG_AGO,
        "task": "shop.charge",
        "sends": 1,
        "wake_at": FAR_AHEAD,
    }
    return StepRecord(run_id=run_id, key=key, **{**plain, **fields})


def a_signal(run_id: str, name: str = "approval", signal_id: str = "1", **fields: Any) -> SignalRecord:
    """A signal that nobody has looked at yet; `fields` go over that."""
    plain: dict[str, Any] = {"id": 0, "received_at": LONG_AGO, "wake_at": LONG_AGO}
    return SignalRecord(run_id=run_id, name=name, signal_id=signal_id, **{**plain, **fields})


class Adding:
    """A transition that adds steps; a class, so that it travels to other processes."""

    def __init__(self, *steps: StepRecord) -> None:
        self.steps = steps

    def __call__(self, snapshot: Snapshot, now: datetime) -> Snapshot:
        """The snapshot with the steps that it does not have yet."""
        for step in self.steps:
            if step.key not in snapshot.steps:
                snapshot = snapshot.with_step(step)
        return snapshot


SECOND = timedelta(seconds=1)
