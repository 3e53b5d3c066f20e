"""Children: how a row starts a run of its own, and how one that nobody wants any more is told.

Theory of operation. A row of kind `child` waits while its run lives; the run's row is inserted in the transaction that
places it, and two runs meet in no other transaction. Whatever the parent wants of a child (that it ends, that it is
undone) is told by a wake-up: the row gets a `wake_at`, a message for the child goes out after the commit, and whoever
coordinates the child reads there what its parent wants, without a lock. The child's end comes back in a transaction of
the parent's own; until then the ended child keeps a wake-up, so that whatever is lost in between is repeated.
"""

from __future__ import annotations

import json
import uuid
from datetime import datetime

from celery_saga.core import admission, trace_context, wakeup
from celery_saga.core.focus import Focus, focus_of_undone, is_inside
from celery_saga.core.orders import ChildSpec, RunSpec, StepSpec
from celery_saga.core.owners import is_abandoned
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepEvent, StepStatus

_NAMESPACE = uuid.UUID("0d9d2f0a-6d0e-5a53-9a77-6b6a8f1c2b64")


def child_id(parent_id: str, generation: int, key: str) -> str:
    """The id of the run that this step of this generation starts: the same whoever tries, however often."""
    return str(uuid.uuid5(_NAMESPACE, f"{parent_id}\n{generation}\n{key}"))


def is_of_child(step: StepRecord) -> bool:
    """The row stands for another run, or for the undo of one."""
    return step.kind is StepKind.CHILD or (
        step.kind is StepKind.UNDO and '"child"' in step.spec_text and _spec(step) is not None
    )


def _spec(step: StepRecord) -> ChildSpec | None:
    return StepSpec.from_text(step.spec_text).child


def args_of_input(input_text: str) -> str:
    """The input of a run as the arguments of the step that starts it: codec text of [[], input]."""
    return f"[[],{input_text}]"


def record_of(parent: RunRecord, step: StepRecord, now: datetime, resend_s: float) -> RunRecord:
    """The row of the run that `step` starts: as a start by a client would write it, with a wake-up."""
    spec = _spec(step)
    assert spec is not None
    due_at = spec.eta if spec.countdown_s is None else wakeup.after(now, spec.countdown_s)
    run = RunRecord(
        id=step.task_id or "",
        saga=step.task,
        version=spec.version,
        key=spec.key,
        status=RunStatus.QUEUED,
        created_at=now,
        updated_at=now,
        input_text=step.args_text[len("[[],") : -len("]")],
        input_digest=spec.input_digest,
        spec_text=replace(RunSpec.from_text(spec.run_text), deadline_s=spec.deadline_s).to_text(),
        headers_text=trace_context.of_child(parent, is_detached=spec.is_detached),
        not_before_at=due_at if due_at is not None and due_at > now else None,
        deadline_at=None if spec.deadline_s is None else wakeup.after(now, spec.deadline_s),
        priority=(0 if spec.is_detached else parent.priority) if spec.priority is None else spec.priority,
        lane=spec.lane if spec.is_detached else None,  # a child is in the slot of its parent
        tags_text=json.dumps(list(spec.tags)),
        queue=spec.queue,
        parent_id=None if spec.is_detached else parent.id,
        parent_key=None if spec.is_detached else step.key,
    )
    run = wakeup.wake(Snapshot(run), now, resend_s).run
    return admission.first(run, now, resend_s, is_capped=False)


def started(parent: RunRecord, step: StepRecord, now: datetime, resend_s: float) -> tuple[StepRecord, RunRecord]:
    """The row with the id of the run that it stands for, and that run's row, to be inserted in this transaction."""
    step = replace(step, task_id=step.task_id or child_id(parent.id, step.born, step.key))
    return step, record_of(parent, step, now, resend_s)


def release(s: Snapshot, step: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """Let a held row begin: the child starts, or its undo is asked for. In a parked run it stays held."""
    if s.is_parked:
        return s
    s = s.move_step(step.key, StepEvent.STARTED)
    if step.kind is StepKind.CHILD:
        step, child = started(s.run, s.steps[step.key], now, resend_s)
        return replace(s.with_step(step), starts=(*s.starts, child))
    return s.with_step(told(s.steps[step.key], now, resend_s))


# -- what a parent wants of a child -----------------------------------------------------------------------------------
def told(step: StepRecord, now: datetime, resend_s: float) -> StepRecord:
    """The row with a wake-up for its child: sent after the commit, and again by the sweeper if that gets lost."""
    return replace(step, wake_at=wakeup.after(now, resend_s), sends=1, sent_at=now)


def tell(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Children that are to end or to be undone, and were not told so yet, get a wake-up; nothing while parked."""
    untold = [x for x in s.steps.values() if x.status is StepStatus.WAITING and x.wake_at is None and is_of_child(x)]
    if not untold:
        return s
    rollbacks = _open_rollbacks(s)
    news = [x for x in untold if x.kind is StepKind.UNDO or _is_unwanted(s, x, rollbacks)]
    return s.with_steps({x.key: told(x, now, resend_s) for x in news}) if news else s


def is_unwanted(s: Snapshot, step: StepRecord) -> bool:
    """The child is to end: the forward part of its parent has, its step is cut, or nobody waits for it any more."""
    return _is_unwanted(s, step, _open_rollbacks(s))


def _is_unwanted(s: Snapshot, step: StepRecord, rollbacks: list[str]) -> bool:
    if s.run.outcome is not None or (s.run.restart and step.key in json.loads(s.run.cut_text or "[]")):
        return True
    return is_abandoned(s, step) or any(is_inside(step.key, prefix) for prefix in rollbacks)


def _open_rollbacks(s: Snapshot) -> list[str]:
    rows = (x for x in s.steps.values() if x.kind is StepKind.ROLLBACK and x.status is StepStatus.WAITING)
    return [x.undo_of or "" for x in rows]


def skips_undos(s: Snapshot) -> bool:
    """Its parent was cancelled without undos, and so is the child."""
    return s.run.skip_undos and s.run.outcome is RunStatus.CANCELLED


def focus_of_child(key: str) -> Focus:
    """What tells what a parent wants of its child: the child's row and undo, its join, and what it lies in."""
    return focus_of_undone(key)


def reports(run: RunRecord, now: datetime, resend_s: float) -> dict[str, datetime | int | None]:
    """The wake-up of a run that has ended: none, or that of a child until its parent has recorded the end."""
    if run.parent_id is None:
        return {"wake_at": None, "sends": 0}
    return {"wake_at": wakeup.after(now, resend_s), "sends": 1, "sent_at": now}
