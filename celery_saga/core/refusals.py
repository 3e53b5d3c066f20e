"""What a person is told who asks for what a run does not allow: in which status it is, and what can be done instead."""

from __future__ import annotations

from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus
from celery_saga.errors import IllegalTransition

_UNDER_WAY = "It is under way: let it go on, suspend it or cancel it"
_INSTEAD = {
    RunStatus.QUEUED: _UNDER_WAY,
    RunStatus.RUNNING: _UNDER_WAY,
    RunStatus.WAITING: _UNDER_WAY,
    RunStatus.COMPENSATING: "Its undos are under way: let them go on, suspend it, or repair an undo with retry_undo or "
    "resolve_undo",
    RunStatus.SUSPENDED: "It is parked: resume, compensate or cancel it",
    RunStatus.COMPLETED: "It has completed: compensate undoes what it did",
    RunStatus.FAILED: "It has ended: retry starts it over",
    RunStatus.CANCELLED: "It has ended: retry starts it over",
    RunStatus.COMPENSATION_FAILED: "Its undos are used up: retry_undo or resolve_undo finishes it",
}


def not_allowed(s: Snapshot, verb: str, why: str) -> IllegalTransition:
    """The refusal of a verb, with the run's status and what to do instead."""
    run = s.run
    parked = f" ({run.reason})" if s.is_parked and run.reason else ""
    return IllegalTransition(
        f"run {run.id!r}: {verb} is not allowed while the run is {run.status.value}{parked}: {why}; nothing was "
        f"changed. {_INSTEAD[run.status]}."
    )
