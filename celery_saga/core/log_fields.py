"""What records of the log carry of a run: the attributes `saga_run`, `saga_name`, `saga_step` and `saga_attempt`."""

from __future__ import annotations

from celery_saga.core.records import RunRecord

NAMES = ("saga_run", "saga_name", "saga_step", "saga_attempt")
"""The attributes, in the order in which they are told: id of the run, its saga, the step's key, its attempt from 1."""


def fields_of(run: RunRecord, step: str | None = None, attempt: int | None = None, **more: object) -> dict[str, object]:
    """`extra=` for a record about a run, or about an attempt of one of its steps.

    Args:
        more: further attributes.
    """
    return {"saga_run": run.id, "saga_name": run.saga, "saga_step": step, "saga_attempt": attempt, **more}
