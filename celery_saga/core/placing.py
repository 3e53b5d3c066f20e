"""How what a pass ordered becomes steps: scheduled, waiting, held, or done at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from celery_saga.core import wakeup
from celery_saga.core.children import started
from celery_saga.core.orders import StepSpec
from celery_saga.core.owners import wake_owner
from celery_saga.core.records import Action, RunRecord, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus

AT_ONCE = frozenset({StepKind.RECORD, StepKind.ON_UNDO, StepKind.PATCH, StepKind.MARK})
"""Kinds that are done when they are placed: the body goes on without leaving."""
SENT = frozenset({StepKind.STEP, StepKind.PART})
"""Kinds that somebody has to execute: each has a wake-up of its own."""
STARTED = SENT | {StepKind.CHILD}
"""Kinds that begin when they are placed, or later where the number in flight is bounded."""


@dataclass(frozen=True, slots=True)
class Order:
    """One new step that the body asked for.

    `delay_s` is that of a timer or of a wait's time-out; `at` is there where an instant was given instead.
    """

    kind: StepKind
    key: str
    scope: str
    ordinal: int
    task: str = ""
    args_text: str = "[[], {}]"
    args_digest: str = ""
    spec_text: str = "{}"
    result_text: str | None = None  # of a record, which is done at once
    delay_s: float | None = None
    at: datetime | None = None
    task_id: str | None = None  # id of a detached run that starts here; that of a child follows from its place
    join_key: str | None = None  # of a part
    join_total: int = 0  # of a join


def place(s: Snapshot, orders: Iterable[Order], now: datetime, resend_s: float) -> Snapshot:
    """Write new steps, in their order and in one go: a join may have ten thousand parts."""
    new: dict[str, StepRecord] = {}
    seq = s.run.step_seq
    over: list[str] = []
    starts: list[RunRecord] = []
    gates = _Gates(s, new)
    for order in orders:
        step = _record(s, order, now)
        is_open = order.join_key is None or order.kind not in STARTED or gates.is_open(order.join_key, order.ordinal)
        if order.kind in SENT:
            step = wakeup.scheduled(step, now, resend_s) if is_open else replace(step, status=StepStatus.HELD)
        elif order.kind is StepKind.CHILD and not is_open:
            step = replace(step, status=StepStatus.HELD)
        elif order.kind in AT_ONCE or (order.kind is StepKind.JOIN and order.join_total == 0):
            seq += 1
            result_text = order.result_text or ("[]" if order.kind is StepKind.JOIN else "null")
            step = replace(step, status=StepStatus.DONE, result_text=result_text, seq=seq, ended_at=now)
        elif order.kind is StepKind.TIMER and step.due_at is not None and step.due_at <= now:
            # A sleep that is over already still is a step: it fires here, and is seen by another pass.
            seq += 1
            step = replace(step, status=StepStatus.DONE, result_text="null", wake_at=None, seq=seq, ended_at=now)
            over.append(step.key)
        elif order.kind is StepKind.ROLLBACK:
            step = replace(step, undo_of=order.scope.rstrip("/"))
        if is_open and (order.kind is StepKind.CHILD or (order.kind is StepKind.RECORD and order.task_id is not None)):
            step, child = started(s.run, step, now, resend_s)
            starts.append(child)
        new[step.key] = step
    s = replace(s, starts=(*s.starts, *starts)) if starts else s
    run = s.run if seq == s.run.step_seq else replace(s.run, step_seq=seq)
    s = replace(s, run=run, steps={**s.steps, **new}) if new else s
    for key in over:
        s = wake_owner(s.note(now, Action.OK, "timer", step=key), key, now, resend_s)
    return s


def _record(s: Snapshot, order: Order, now: datetime) -> StepRecord:
    due_at = order.at if order.delay_s is None else wakeup.after(now, order.delay_s)
    return StepRecord(
        run_id=s.run.id,
        generation=s.run.generation,
        key=order.key,
        kind=order.kind,
        status=StepStatus.SCHEDULED if order.kind in SENT else StepStatus.WAITING,
        created_at=now,
        scope=order.scope,
        ordinal=order.ordinal,
        born=s.run.generation,
        task=order.task,
        args_text=order.args_text,
        args_digest=order.args_digest,
        spec_text=order.spec_text,
        due_at=due_at,
        wake_at=due_at,
        task_id=order.task_id,
        join_key=order.join_key,
        join_total=order.join_total,
        join_left=order.join_total,
    )


class _Gates:
    """How many parts of each join were let start in this go."""

    def __init__(self, s: Snapshot, new: dict[str, StepRecord]) -> None:
        self._steps, self._new = s.steps, new
        self._bounds: dict[str, int | None] = {}
        self._started: dict[str, int] = {}

    def is_open(self, join_key: str, number: int) -> bool:
        """Whether this part may start now; if so, it is counted on the join's row."""
        join = self._new.get(join_key) or self._steps[join_key]
        if join_key not in self._bounds:
            self._bounds[join_key] = StepSpec.from_text(join.spec_text).concurrency
            self._started[join_key] = 0
        bound = self._bounds[join_key]
        if bound is not None and self._started[join_key] >= bound:
            return False
        self._started[join_key] += 1
        self._new[join_key] = replace(join, join_next=number + 1)
        return True
