"""What is stored of a run, as frozen values: the run, its steps, its signals, its history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from celery_saga.core import codec, failure
from celery_saga.core.status import RunStatus, StepStatus


class StepKind(StrEnum):
    """What a step row stands for."""

    STEP = "step"  # a Celery task
    UNDO = "undo"  # the Celery task that reverses a step; its key is `<key>!undo`
    SIGNAL = "signal"  # a wait for one signal: a join whose header has one name
    TIMER = "timer"  # a sleep
    RECORD = "record"  # a value computed in the body, written once
    ON_UNDO = "on_undo"  # an undo registered without a step
    PATCH = "patch"  # a change that the body took up when it first came to it; has no place among the others
    JOIN = "join"  # a set of parts; its end fires once when enough of them are in
    PART = "part"  # a part that is a function of the body: decided by itself, in a scope of its own
    CHILD = "child"  # another run, whose end is this step's
    ROLLBACK = "rollback"  # a part or scope that is being undone while the run goes on
    CHORD = "chord"  # a task hung on the run's signals; has no place, and nobody waits for it
    MARK = "mark"  # a place that the body has passed: pivot, edges of a shield, a scope that was left


class Action(StrEnum):
    """What a history row tells: outcomes and operators' actions, nothing else."""

    OK = "ok"
    FAIL = "fail"
    LOST = "lost"
    TIMEOUT = "timeout"
    CANCEL = "cancel"
    SIGNAL = "signal"
    END = "end"
    PARK = "park"
    SUSPEND = "suspend"
    RESUME = "resume"
    COMPENSATE = "compensate"
    RETRY = "retry"
    CONTINUE = "continue"  # began again with other input, in a new generation
    SKIP = "skip"
    RETRY_UNDO = "retry_undo"
    RESOLVE_UNDO = "resolve_undo"


def undo_key(key: str) -> str:
    """The key of the step row that reverses step `key`."""
    return key + "!undo"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run as stored. Texts ending in `_text` are codec or JSON documents; instants are aware UTC.

    `state_version` grows by one with every transition; `history_seq` and `step_seq` are the last numbers given.
    `wake_at` is None when nothing but a signal, an operator or a step of its own can move the run.
    """

    id: str
    saga: str
    version: int
    key: str | None
    status: RunStatus
    created_at: datetime
    updated_at: datetime
    generation: int = 1
    state_version: int = 1
    input_text: str | None = None  # None where a listing did not load it
    input_digest: str = ""
    spec_text: str = "{}"  # orders.RunSpec: what the definition said when the run started
    headers_text: str = "{}"  # message headers captured at start; they go on every message of the run
    result_text: str | None = None
    error_text: str | None = None
    error_step: str | None = None  # the step whose error ended the forward part
    reason: str | None = None  # why it is parked: body_error, non_determinism, stalled, input, unreadable,
    # on_failure, undo_failed, undo_unknown, operator; after the pivot also pivot, deadline
    outcome: RunStatus | None = (
        None  # how the forward part ended: completed, failed or cancelled; None while it goes on
    )
    restart: bool = False  # the undos that run now precede a new generation, not an end
    cut_text: str | None = None  # keys of the steps that a restart drops, as JSON list
    skip_undos: bool = False  # cancelled with compensate=False: its undos stay unexecuted
    started_at: datetime | None = None
    ended_at: datetime | None = None
    wake_at: datetime | None = None
    not_before_at: datetime | None = None  # no decision earlier: delayed start, back-off of the saga's own retry
    deadline_at: datetime | None = None
    priority: int = 0
    lane: str | None = None
    tags_text: str = "[]"
    queue: str | None = None
    parent_id: str | None = None
    parent_key: str | None = None
    failures: int = 0  # times that the body raised, for the saga's own retry
    stalls: int = 0  # careful advances that ended unseen
    claim_token: str | None = None  # of a careful advance
    lease_until: datetime | None = None
    sends: int = 0  # wake-ups sent since the run was last decided
    sent_at: datetime | None = None  # when the last of them was
    redispatched_at: datetime | None = None  # when that was because a person had lost messages sent again
    attention_at: datetime | None = None  # since when it needs a person; None: it does not
    step_seq: int = 0
    history_seq: int = 0
    folded: bool = False  # some of its steps are: a plain load leaves them out
    shields: int = 0  # that it holds now
    pending_text: str | None = None  # shield.Pending: the cancel or passed deadline that waits until it holds none
    pivoted: bool = False  # it has passed its point of no return: it cannot be cancelled, and does not fail
    scheduled_for: datetime | None = None  # the nominal time that a schedule started it for
    admission: str = ""  # status.Admission; "": it needs no slot
    asks: int = 0  # how often it has asked to be admitted; fences what is granted
    purged_at: datetime | None = None  # since then only its key and how it ended are kept

    @property
    def input(self) -> Any:
        """The arguments as given, by parameter name, as plain values; None where they were not loaded."""
        return None if self.input_text is None else codec.decode(self.input_text)

    @property
    def result(self) -> Any:
        """The result as a plain value; None until completed."""
        return None if self.result_text is None else codec.decode(self.result_text)

    @property
    def error(self) -> failure.Failure | None:
        """Why the run did not complete, or why it is parked."""
        return None if self.error_text is None else failure.from_text(self.error_text)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags given at start."""
        return tuple(codec.decode(self.tags_text))


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step as stored: a task, an undo, a wait, a timer or a recorded value.

    `attempt` counts claims from 1 (0: never claimed), `failures` attempts that raised, `stalls` attempts that ended
    unseen. `seq` is given under the run's lock when the step ends; undos run in its reverse order.
    """

    run_id: str
    generation: int
    key: str
    kind: StepKind
    status: StepStatus
    created_at: datetime
    scope: str = ""
    ordinal: int = 0  # place in its scope, from 0
    born: int = 1  # the generation that ordered it; part of its idempotency key
    task: str = ""  # task name; signal name of a wait
    args_digest: str = ""
    args_text: str = "[[], {}]"
    spec_text: str = "{}"  # orders.StepSpec
    attempt: int = 0
    failures: int = 0
    stalls: int = 0
    sends: int = 0  # messages sent, or put off, since it was scheduled; 0: not yet sent
    sent_at: datetime | None = None  # when the last of them was
    redispatched_at: datetime | None = None  # when that was because a person had lost messages sent again
    maybe: bool = False
    seq: int | None = None
    claim_token: str | None = None
    owner: str | None = None  # host:pid of the attempt
    lease_until: datetime | None = None
    due_at: datetime | None = None  # a timer's instant, a wait's time-out, the end of a back-off
    wake_at: datetime | None = None
    task_id: str | None = None  # the Celery id, one for all attempts
    result_text: str | None = None
    error_text: str | None = None
    undo_of: str | None = None
    progress_text: str | None = None  # [current, total, message], as its task reported last
    progress_at: datetime | None = None
    join_key: str | None = None  # the join that this part belongs to
    join_total: int = 0  # of a join: its parts
    join_left: int = 0  # of a join: parts that are not in yet
    join_next: int = 0  # of a join: parts that were let start; the others are held
    folded: bool = False  # its join is over and has its result: passes need not see it any more
    started_at: datetime | None = None  # of the last attempt
    ended_at: datetime | None = None

    @property
    def result(self) -> Any:
        """The checkpointed result as a plain value; None until done."""
        return None if self.result_text is None else codec.decode(self.result_text)

    @property
    def error(self) -> failure.Failure | None:
        """The last attempt's error."""
        return None if self.error_text is None else failure.from_text(self.error_text)

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments as plain values."""
        return tuple(codec.decode(self.args_text)[0])

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments as plain values."""
        return dict(codec.decode(self.args_text)[1])

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step, also after a crash; another one in another generation."""
        return f"{self.run_id}:{self.born}:{self.key}"


@dataclass(frozen=True, slots=True)
class SignalRecord:
    """One signal in the inbox of a run, which need not exist yet."""

    id: int  # order of arrival; 0 until stored
    run_id: str
    name: str
    signal_id: str
    received_at: datetime
    value_text: str = "null"
    error_text: str | None = None
    taken_by: str | None = None  # key of the wait that took it
    taken_generation: int | None = None
    wake_at: datetime | None = None  # set while nobody has looked at it under the run's lock
    expires_at: datetime | None = None  # for signals sent before their run exists

    @property
    def is_request(self) -> bool:
        """No signal of a user's, but something asked of the engine; see `core.requests`."""
        return self.name.startswith("!")


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One thing that happened to a run; `seq` counts from 1 without a gap."""

    run_id: str
    seq: int
    at: datetime
    action: Action
    kind: str  # run, step, undo, signal, timer
    step: str | None = None
    attempt: int | None = None
    generation: int = 1
    detail: str | None = None  # one line: type and message of an error, name of a signal, end status
    by: str | None = None
    reason: str | None = None
