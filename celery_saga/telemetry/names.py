"""The names of spans, attributes and instruments; docs/opentelemetry.md says what each means."""

from __future__ import annotations

from typing import Final

SCOPE: Final = "celery_saga"

SAGA, VERSION = "saga.name", "saga.version"
RUN, RUN_KEY, RUN_STATUS, GENERATION, PARENT_RUN = (
    *("saga.run.id", "saga.run.key", "saga.run.status", "saga.run.generation"),
    "saga.run.parent_id",
)
FAILED_STEP, REASON = "saga.run.failed_step", "saga.run.reason"
STEP, TASK, KIND, ATTEMPT, STALLS, UNDO_OF, OUTCOME = (
    *("saga.step.key", "saga.step.task", "saga.step.kind", "saga.step.attempt", "saga.step.stalls"),
    *("saga.step.undo_of", "saga.step.outcome"),
)
SIGNAL, LANE, PURPOSE = "saga.signal.name", "saga.lane", "saga.outbox.purpose"
ERROR: Final = "error.type"
"""As the semantic conventions have it."""

DURATION, STEP_DURATION, ENDED, ATTEMPTS, UNDOS, STALLED = (
    *("saga.run.duration", "saga.step.duration", "saga.runs.ended"),
    *("saga.step.attempts", "saga.undos", "saga.stalls"),
)
RUNS, OLDEST, DESK, OUTBOX, WAITING = (
    *("saga.runs", "saga.wakeup.overdue", "saga.desk.runs", "saga.outbox.depth", "saga.lane.waiting"),
)
