"""The state machines of a run and of a step, as tables: an event that a table does not allow changes nothing.

Theory of operation. A run moves forward (`queued, running, waiting`) until its forward part ends; it then either
completes or compensates. `suspended` is the parking place: no wake-up, no work, until a person acts. A step is ordered
as `scheduled` (to be executed), `waiting` (for a signal or a time) or `held` (not yet allowed to start); a claim makes
it `running`; the rest of the table says how it leaves that.
"""

from __future__ import annotations

from enum import StrEnum

from celery_saga.errors import IllegalTransition


class RunStatus(StrEnum):
    """Status of a run; the first five are live, the others are ends."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPENSATING = "compensating"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    COMPENSATION_FAILED = "compensation_failed"

    @property
    def is_end(self) -> bool:
        """The run has ended; only an operator's action can move it."""
        return self in _ENDS

    @property
    def is_forward(self) -> bool:
        """The body still decides what happens next."""
        return self in _FORWARD


class StepStatus(StrEnum):
    """Status of a step; the first four are live, the others are ends."""

    HELD = "held"
    SCHEDULED = "scheduled"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"

    @property
    def is_end(self) -> bool:
        """The step will not be executed again unless a person or a retry of the run reopens it."""
        return self in _STEP_ENDS


class Admission(StrEnum):
    """Whether a run may be active: see `core.admission`."""

    NONE = ""  # it needs no slot
    ASKED = "asked"  # it waits to be let in
    HELD = "held"  # it has all its slots
    LEAVING = "leaving"  # it gives them back once what runs has ended, and asks again
    OUT = "out"  # it has given them back, and waits for something else


class RunEvent(StrEnum):
    """What can happen to a run."""

    ADVANCED = "advanced"
    WAITED = "waited"
    COMPLETED = "completed"
    FORWARD_ENDED = "forward_ended"
    PARKED = "parked"
    RESUMED = "resumed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNDO_FAILED = "undo_failed"
    UNDO_REOPENED = "undo_reopened"
    RESTARTED = "restarted"


class StepEvent(StrEnum):
    """What can happen to a step."""

    RELEASED = "released"
    STARTED = "started"
    WITHHELD = "withheld"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRIED = "retried"
    STALLED = "stalled"
    LOST = "lost"
    CANCELLED = "cancelled"
    FIRED = "fired"
    TIMED_OUT = "timed_out"
    REOPENED = "reopened"
    REWAITED = "rewaited"
    DECIDED = "decided"
    WOKEN = "woken"
    RESOLVED = "resolved"
    SKIPPED = "skipped"


_ENDS = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.COMPENSATION_FAILED})
_FORWARD = frozenset({RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING})
_STEP_ENDS = frozenset({StepStatus.DONE, StepStatus.FAILED, StepStatus.LOST, StepStatus.CANCELLED})

_R, _S = RunStatus, StepStatus

RUN_TABLE: dict[tuple[RunStatus, RunEvent], RunStatus] = {
    **{(s, RunEvent.ADVANCED): _R.RUNNING for s in _FORWARD},
    **{(s, RunEvent.WAITED): _R.WAITING for s in _FORWARD},
    **{(s, RunEvent.COMPLETED): _R.COMPLETED for s in _FORWARD},
    **{(s, RunEvent.FORWARD_ENDED): _R.COMPENSATING for s in (*_FORWARD, _R.SUSPENDED, _R.COMPLETED)},
    **{(s, RunEvent.PARKED): _R.SUSPENDED for s in (*_FORWARD, _R.COMPENSATING)},
    (_R.SUSPENDED, RunEvent.RESUMED): _R.RUNNING,
    (_R.SUSPENDED, RunEvent.UNDO_REOPENED): _R.COMPENSATING,
    (_R.COMPENSATION_FAILED, RunEvent.UNDO_REOPENED): _R.COMPENSATING,
    (_R.COMPENSATING, RunEvent.COMPLETED): _R.COMPLETED,
    (_R.COMPENSATING, RunEvent.FAILED): _R.FAILED,
    (_R.COMPENSATING, RunEvent.CANCELLED): _R.CANCELLED,
    (_R.COMPENSATING, RunEvent.UNDO_FAILED): _R.COMPENSATION_FAILED,
    **{(s, RunEvent.RESTARTED): _R.QUEUED for s in (*_FORWARD, _R.SUSPENDED, _R.COMPENSATING, _R.FAILED, _R.CANCELLED)},
    (_R.FAILED, RunEvent.UNDO_REOPENED): _R.COMPENSATING,
    (_R.CANCELLED, RunEvent.UNDO_REOPENED): _R.COMPENSATING,
}

STEP_TABLE: dict[tuple[StepStatus, StepEvent], StepStatus] = {
    (_S.HELD, StepEvent.RELEASED): _S.SCHEDULED,
    (_S.HELD, StepEvent.STARTED): _S.WAITING,  # of a child, or of the undo of one: it is executed elsewhere
    (_S.SCHEDULED, StepEvent.WITHHELD): _S.HELD,
    (_S.SCHEDULED, StepEvent.CLAIMED): _S.RUNNING,
    (_S.RUNNING, StepEvent.SUCCEEDED): _S.DONE,
    (_S.RUNNING, StepEvent.FAILED): _S.FAILED,
    (_S.RUNNING, StepEvent.RETRIED): _S.SCHEDULED,
    (_S.RUNNING, StepEvent.STALLED): _S.SCHEDULED,
    (_S.RUNNING, StepEvent.LOST): _S.LOST,
    (_S.HELD, StepEvent.CANCELLED): _S.CANCELLED,
    (_S.SCHEDULED, StepEvent.CANCELLED): _S.CANCELLED,
    (_S.RUNNING, StepEvent.DECIDED): _S.WAITING,  # of a part: its pass has ordered what it waits for
    (_S.WAITING, StepEvent.WOKEN): _S.SCHEDULED,  # of a part: something it waits for has come
    (_S.RUNNING, StepEvent.CANCELLED): _S.CANCELLED,  # of a part whose join is over
    (_S.WAITING, StepEvent.CANCELLED): _S.CANCELLED,
    (_S.WAITING, StepEvent.FIRED): _S.DONE,
    (_S.WAITING, StepEvent.FAILED): _S.FAILED,
    (_S.WAITING, StepEvent.TIMED_OUT): _S.FAILED,
    **{(s, StepEvent.REOPENED): _S.SCHEDULED for s in (_S.FAILED, _S.LOST, _S.CANCELLED)},
    **{(s, StepEvent.REWAITED): _S.WAITING for s in (_S.FAILED, _S.CANCELLED)},
    (_S.DONE, StepEvent.REWAITED): _S.WAITING,  # of a join some of whose parts are cut
    **{(s, StepEvent.RESOLVED): _S.DONE for s in (_S.FAILED, _S.LOST, _S.CANCELLED, _S.HELD, _S.SCHEDULED, _S.WAITING)},
    **{(s, StepEvent.SKIPPED): _S.CANCELLED for s in (_S.FAILED, _S.LOST, _S.HELD, _S.SCHEDULED)},
}


def next_run_status(run_id: str, status: RunStatus, event: RunEvent) -> RunStatus:
    """Where `event` takes a run.

    Raises:
        IllegalTransition: the table does not allow the event in this status; nothing was changed.
    """
    try:
        return RUN_TABLE[status, event]
    except KeyError:
        raise IllegalTransition(
            f"run {run_id!r}: {event.value!r} is not allowed while the run is {status.value!r}; nothing was changed"
        ) from None


def next_step_status(run_id: str, key: str, status: StepStatus, event: StepEvent) -> StepStatus:
    """Where `event` takes a step.

    Raises:
        IllegalTransition: the table does not allow the event in this status; nothing was changed.
    """
    try:
        return STEP_TABLE[status, event]
    except KeyError:
        raise IllegalTransition(
            f"run {run_id!r}, step {key!r}: {event.value!r} is not allowed while the step is {status.value!r}; "
            "nothing was changed"
        ) from None
