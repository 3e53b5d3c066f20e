"""Models of what is answered; they describe the documents of `celery_saga.client.documents`, which are made there."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from celery_saga.client.waiting_on import WaitKind
from celery_saga.core.records import Action, StepKind
from celery_saga.core.schedules import FireOutcome, PatternKind, SkipReason
from celery_saga.core.status import RunStatus, StepStatus

__all__ = ["CancelAnswer", "DeliveryAnswer", "DiagramAnswer", "EventsAnswer", "ExportAnswer", "HealthAnswer"]
__all__ += ["HistoryAnswer", "ProblemAnswer", "ProgressAnswer", "RedeemedAnswer", "RunAnswer", "RunsAnswer"]
__all__ += ["DeskAnswer", "FiresAnswer", "RemovedAnswer", "ScheduleAnswer", "SchedulesAnswer"]
__all__ += ["SagaAnswer", "SagasAnswer", "ShownRunAnswer", "StartedAnswer", "StepsAnswer", "WaitingAnswer"]

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FailureDocument(_Answer):
    """An error with its causes; `code` where it is one of ours."""

    type: str
    message: str
    code: str | None
    cause: FailureDocument | None
    traceback: str | None = Field(None, description="Only where it was asked for.")


class RunAnswer(_Answer):
    """A run; `input` and `result` are there only where the route loads them."""

    id: str
    saga: str
    version: int
    key: str | None
    status: RunStatus
    reason: str | None = Field(description="Why it is parked.")
    generation: int
    created_at: Instant
    started_at: Instant | None
    updated_at: Instant
    ended_at: Instant | None
    deadline_at: Instant | None
    wake_at: Instant | None
    priority: int
    lane: str | None
    admission: Literal["asked", "held", "leaving", "out"] | None = Field(
        description="asked: it waits to be let in; held: it has its slots; null: it needs none."
    )
    tags: list[str]
    error: FailureDocument | None
    error_step: str | None
    parent_id: str | None
    scheduled_for: Instant | None = Field(description="The nominal time that a schedule started it for.")
    purged: bool = Field(description="Only its key and how it ended are left.")
    input: Any = None
    result: Any = None


class StartedAnswer(RunAnswer):
    """A run that was started or found."""

    created: bool = Field(description="This very start wrote it.")


class ProgressDocument(_Answer):
    """How far a step is."""

    current: float
    total: float | None
    message: str | None
    at: Instant


class StepDocument(_Answer):
    """A step; `attempt` counts claims, `failures` attempts that raised, `stalls` attempts that ended unseen."""

    key: str
    kind: StepKind
    task: str
    status: StepStatus
    generation: int
    attempt: int
    failures: int
    stalls: int
    maybe: bool
    seq: int | None
    undo_of: str | None
    child_id: str | None
    args: Any
    kwargs: Any
    result: Any
    error: FailureDocument | None
    progress: ProgressDocument | None
    idempotency_key: str
    owner: str | None
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    due_at: Instant | None
    wake_at: Instant | None
    lease_until: Instant | None


class WaitingDocument(_Answer):
    """One thing that a run waits for."""

    kind: WaitKind
    name: str
    since: Instant
    until: Instant | None


class SignalDocument(_Answer):
    """A signal of the inbox; `taken_by` is the key of the wait that took it."""

    name: str
    id: str
    received_at: Instant
    value: Any
    taken_by: str | None


class HistoryDocument(_Answer):
    """One thing that happened to a run; `seq` counts from 1."""

    seq: int
    at: Instant
    action: Action
    kind: str
    step: str | None
    attempt: int | None
    generation: int
    detail: str | None
    by: str | None
    reason: str | None


class ShownRunAnswer(RunAnswer):
    """A run with its steps, what it waits for, and its signals."""

    steps: list[StepDocument]
    waiting_on: list[WaitingDocument]
    signals: list[SignalDocument]


class RunsAnswer(_Answer):
    """A page of runs, newest first; `next` is the `after` of the next page, null on the last."""

    runs: list[RunAnswer]
    next: str | None


class FailingUndoDocument(_Answer):
    """An undo that has failed, or that cannot be ordered because the outcome of its step is unknown."""

    step: str
    task: str
    status: StepStatus
    attempts: int
    failures: int
    stalls: int
    error: FailureDocument | None
    next_try_at: Instant | None
    verbs: list[str]


class DeskEntryDocument(_Answer):
    """A run that needs a person: why, since when, and what can be done about it."""

    run: RunAnswer
    why: str
    sentence: str
    since: Instant
    undos: list[FailingUndoDocument]
    verbs: list[str]


class DeskAnswer(_Answer):
    """A page of the desk; `next` is the `after` of the next page, null on the last."""

    desk: list[DeskEntryDocument]
    next: str | None


class StepsAnswer(_Answer):
    """Steps, in the order in which they were ordered."""

    steps: list[StepDocument]


class HistoryAnswer(_Answer):
    """What happened to a run, oldest first."""

    history: list[HistoryDocument]


class EventsAnswer(_Answer):
    """What happened after a row of the history.

    `next` is the `after` of the next question; `ended`: the run has ended, and nothing follows.
    """

    events: list[HistoryDocument]
    next: int
    ended: bool


class WaitingAnswer(_Answer):
    """What a run waits for, oldest first; a person first of all."""

    waiting_on: list[WaitingDocument]


class ProgressAnswer(_Answer):
    """How far the steps of a run are, by step key; only those that have reported it."""

    progress: dict[str, ProgressDocument]


class ExportAnswer(BaseModel):
    """All that is stored of a run, as `RunHandle.export()`."""

    model_config = ConfigDict(extra="allow")

    run: dict[str, Any]
    steps: list[dict[str, Any]]
    history: list[dict[str, Any]]
    signals: list[dict[str, Any]]


class DiagramAnswer(_Answer):
    """A flow chart as Mermaid text."""

    mermaid: str


class DeliveryAnswer(_Answer):
    """A signal that was sent."""

    run: str
    signal: str
    delivery: Literal["delivered", "kept"] = Field(
        description="delivered: a wait took it; kept: none takes it yet, so it stays until one does or the run ends."
    )


class CancelAnswer(_Answer):
    """What a cancel has done."""

    run: str
    cancelled: bool = Field(description="It is cancelled, or will be; false where it has ended otherwise.")
    status: RunStatus
    changed: bool = Field(description="false: it had ended before, or its undos had begun.")


class RedeemedAnswer(_Answer):
    """A token that was redeemed."""

    run: str
    signal: str


class ScheduleAnswer(_Answer):
    """A schedule; `pattern` is a cron expression, seconds, or an instant, as `kind` says."""

    saga: str
    id: str
    version: int
    kind: PatternKind
    pattern: str
    tz: str
    input: Any
    overlap: str
    catch_up: str
    source: str
    driver: str
    created_at: Instant
    updated_at: Instant
    next_at: Instant | None
    last_fire_at: Instant | None
    last_run_id: str | None
    paused: bool
    pause_reason: str | None
    pause_by: str | None
    failures: int
    error: str | None


class SchedulesAnswer(_Answer):
    """Schedules, by saga and name."""

    schedules: list[ScheduleAnswer]


class FireDocument(_Answer):
    """What became of a nominal time, or of `count` of them in a row that were skipped for one reason."""

    nominal_at: Instant
    until_at: Instant | None
    count: int
    outcome: FireOutcome
    reason: SkipReason | None
    run_id: str | None
    at: Instant


class FiresAnswer(_Answer):
    """What became of the nominal times of a schedule, newest first."""

    fires: list[FireDocument]


class RemovedAnswer(_Answer):
    """A schedule that was removed."""

    saga: str
    id: str
    removed: Literal[True]


class SagaAnswer(_Answer):
    """A saga that the app knows."""

    name: str
    version: int
    description: str
    parameters: dict[str, Any] = Field(description="JSON Schema of its arguments by name.")
    signals: dict[str, Any] = Field(description="JSON Schema of each declared signal's value; none: any is taken.")


class SagasAnswer(_Answer):
    """The sagas that the app knows, by name and version."""

    sagas: list[SagaAnswer]


class OutboxDocument(_Answer):
    """Announcements that nobody has taken; at most 100000 are counted."""

    waiting: int
    oldest_s: float | None


class FailingDocument(_Answer):
    """Schedules that could not be fired the last time."""

    failing: int


class HealthAnswer(_Answer):
    """The API answers and reaches its database, and what has piled up there."""

    status: Literal["ok"]
    outbox: OutboxDocument
    schedules: FailingDocument


class ProblemAnswer(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="forbid")

    type: str
    title: str
    status: int
    code: str
    detail: str
    path: str | None = Field(None, description="Where in the request.")
    run_id: str | None = Field(None, description="The run that it is about.")
    signal: str | None = Field(None, description="The signal that it is about.")
