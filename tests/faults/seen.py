"""What is seen of runs after a fault: their effects in the ledger, and the rows of their steps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from celery_saga.core.records import StepRecord


@dataclass(frozen=True)
class Effect:
    """One row of the ledger: an effect of a step (`key` as `b` or `b!undo`) in the outside world."""

    id: int
    run: str
    key: str
    token: str
    attempt: int
    pid: int
    told: str
    ts: datetime


@dataclass(frozen=True)
class Step:
    """One row of the step table, as far as the claims look at it."""

    run: str
    key: str
    kind: str
    status: str
    attempt: int
    failures: int
    stalls: int
    maybe: bool
    seq: int | None
    ended_at: datetime | None
    has_undo: bool

    @classmethod
    def of(cls, record: StepRecord) -> Step:
        """From the store's record."""
        names = ("key", "attempt", "failures", "stalls", "maybe", "seq", "ended_at")
        values = {name: getattr(record, name) for name in names}
        has_undo = bool(json.loads(record.spec_text).get("undo"))
        return cls(record.run_id, kind=record.kind.value, status=record.status.value, has_undo=has_undo, **values)
