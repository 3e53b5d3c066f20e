"""A step whose Celery id was revoked gets a new id: every worker that heard of it discards the old one for ever."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime, timedelta

from celery_saga.core.records import StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.engine.engine import Engine
from celery_saga.runtime.messages import task_id_of

__all__ = ["give_new_id"]

_AGAIN_S = 1.0


def give_new_id(engine: Engine, step: StepRecord) -> None:
    """Write the new id, unless another process has done so already, and let a scheduled step be sent again soon.

    Also of a run of which something cannot be read: the claim that follows parks it, and once it is resumed the step
    must not be discarded for ever.
    """
    old = task_id_of(step)

    def change(s: Snapshot, now: datetime) -> Snapshot:
        there = s.steps.get(step.key)
        if there is None or there.status.is_end or task_id_of(there) != old:
            return s
        soon = (
            there.wake_at
            if there.wake_at is None or there.lease_until is not None
            else now + timedelta(seconds=_AGAIN_S)
        )
        return s.with_step(replace(there, task_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{old}:revoked")), wake_at=soon))

    engine.store.transact(step.run_id, change, as_stored=True)
