"""Progress of running attempts: one row, under the attempt's token, taking no other lock."""

from __future__ import annotations

from sqlalchemy import bindparam, update

from celery_saga.core.status import StepStatus
from celery_saga.store.clock import Clock
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx


class ProgressRows:
    """The statement that writes what an attempt reports."""

    def __init__(self, schema: Schema, clock: Clock) -> None:
        self._clock = clock
        step = schema.step
        self._report = (
            update(step)
            .where(
                step.c.run_id == bindparam("of_run"),
                step.c.generation == bindparam("of_generation"),
                step.c.key == bindparam("of_key"),
                step.c.status == StepStatus.RUNNING.value,
                step.c.claim_token == bindparam("my_token", type_=step.c.claim_token.type),
            )
            .values(progress_text=bindparam("new_text", type_=step.c.progress_text.type), progress_at=clock.now)
        )

    def report(self, tx: Tx, run_id: str, generation: int, key: str, *, token: str, progress_text: str) -> bool:
        """Write it unless the attempt has ended; whether it was written."""
        wanted = {"of_run": run_id, "of_generation": generation, "of_key": key, "my_token": token}
        params = wanted | {"new_text": progress_text} | self._clock.binds()
        if tx.run("report progress", self._report, params).rowcount == 1:
            return True
        tx.discard()
        return False
