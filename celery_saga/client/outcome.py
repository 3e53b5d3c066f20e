"""How a run ended, as a value or as the exception that its waiter sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from celery_saga.client.known import KnownSaga
from celery_saga.core.failure import Failure
from celery_saga.core.focus import Extent
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine.world import refuse_purged
from celery_saga.errors import ResultPurged, RunCancelled, RunFailed, StepFailed

__all__ = ["ENDS", "STATES", "State", "error_of", "outcome_of", "result_of"]

State = Literal["PENDING", "STARTED", "SUCCESS", "FAILURE", "REVOKED"]

STATES: Final[Mapping[RunStatus, State]] = {
    RunStatus.QUEUED: "PENDING",
    RunStatus.RUNNING: "STARTED",
    RunStatus.WAITING: "STARTED",
    RunStatus.COMPENSATING: "STARTED",
    RunStatus.SUSPENDED: "STARTED",
    RunStatus.COMPLETED: "SUCCESS",
    RunStatus.FAILED: "FAILURE",
    RunStatus.CANCELLED: "REVOKED",
    RunStatus.COMPENSATION_FAILED: "FAILURE",
}
"""Celery's word for each status of a run."""

ENDS: Final = (RunFailed, RunCancelled, ResultPurged)
"""What a waiter sees of a run that has ended without a result."""


def outcome_of(seen: Snapshot, saga: KnownSaga | None) -> Any:
    """The result of a run that has ended.

    Raises:
        RunFailed, RunCancelled, ResultPurged: it has none.
    """
    run = seen.run
    refuse_purged(run)
    if run.status is RunStatus.COMPLETED:
        return result_of(run, saga)
    if run.status is RunStatus.CANCELLED:
        undone = "what it had done was left, as asked for" if run.skip_undos else "what it had done is undone"
        raise RunCancelled(f"run {run.id!r} ({run.saga}) was cancelled; {undone}.")
    cause = error_of(seen, saga)
    why = "for an unknown reason" if run.error is None else f"with {_line(run.error)}"
    if run.outcome is RunStatus.CANCELLED:
        why = "because it was cancelled"
    skipped = [x.undo_of or x.key for x in seen.where(StepStatus.CANCELLED, undo=True, need=Extent.PART)]
    but = f", but for {', '.join(map(repr, skipped))}, whose undo was skipped" if skipped else ""
    state = f"what it had done is undone{but}"
    if run.status is RunStatus.COMPENSATION_FAILED:
        open_ = [x.undo_of or x.key for x in seen.where(StepStatus.FAILED, StepStatus.LOST, undo=True)]
        state = f"the undo of {', '.join(map(repr, open_))} failed too and waits for a person"
    step = run.error_step
    if step is not None and isinstance(cause, StepFailed) and cause.step.startswith(step + "["):
        step = cause.step  # the part that failed the join
    at = f" at step {step!r}" if step else ""
    raise RunFailed(f"run {run.id!r} ({run.saga}) failed{at} {why}; {state}.", cause=cause, step=step) from cause


def result_of(run: RunRecord, saga: KnownSaga | None) -> Any:
    """The result of a completed run, of the annotated type where the saga is known.

    Raises:
        ResultPurged: it is there no more.
    """
    refuse_purged(run)
    if run.result_text is None:
        raise ResultPurged(f"run {run.id!r} ({run.saga}) has completed, and its result was purged.")
    return run.result if saga is None else saga.read_result(run.result_text)


def error_of(seen: Snapshot, saga: KnownSaga | None) -> BaseException | None:
    """The error that ended the forward part of a run, or parked it; None where there is none."""
    refuse_purged(seen.run)
    error, key = seen.run.error, seen.run.error_step
    if error is None:
        return None
    step = None if key is None else seen.steps.get(key)
    attempts = 0 if step is None or step.kind is not StepKind.STEP else step.attempt
    if saga is not None:
        return saga.rebuild(error, step=key, attempts=attempts)
    return StepFailed(key or "", error.type_name, error.message, attempts, type_names=error.type_names)


def _line(error: Failure) -> str:
    return f"{error.type_name.rpartition('.')[2]}: {error.message}"
