"""What the event stream is told of a run or a step as it is stored now; pure.

Theory of operation. Whoever listens keeps of each task the state of highest rank: SUCCESS, FAILURE, any name of one's
own, REVOKED, STARTED, RECEIVED, RETRY, PENDING. Only RETRY takes the place of any, and any takes the place of RETRY.
So what has begun again is told with a `task-retried` in between, and the same events may come any number of times. The
first event of a task carries its name: listeners look at that once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from celery.utils.time import utcoffset

from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.errors import PayloadUnreadable
from celery_saga.runtime.literals import literal
from celery_saga.runtime.messages import task_id_of

__all__ = ["begins_again", "may_be_outranked", "of_run", "of_step", "sent_of_run"]

Told = dict[str, Any]

_OWN = frozenset({RunStatus.WAITING, RunStatus.COMPENSATING, RunStatus.SUSPENDED})
_FAILED = frozenset({RunStatus.FAILED, RunStatus.COMPENSATION_FAILED})
_TASKS = frozenset({StepKind.STEP, StepKind.UNDO, StepKind.ON_UNDO, StepKind.CHORD})


def begins_again(was: RunStatus, now: RunStatus) -> bool:
    """What is shown for `was` outranks what is to be shown for `now`."""
    if now is RunStatus.COMPLETED:
        return False
    if was is RunStatus.COMPLETED or now is RunStatus.QUEUED:
        return True
    if now in _FAILED:
        return False
    return was.is_end or (was in _OWN and now not in _OWN)


def may_be_outranked(run: RunRecord) -> bool:
    """The same where nobody knows what is shown: what the run may have been before outranks what it is."""
    if run.status in (RunStatus.QUEUED, RunStatus.FAILED):
        return run.generation > 1
    return run.status is not RunStatus.COMPLETED


def sent_of_run(run: RunRecord, hostname: str, payload: Mapping[str, Any] | None = None) -> Told:
    """That the run was started; the only event that makes no worker of whoever sends it."""
    return _event("task-sent", run.id, hostname, run.created_at, **_head_of_run(run, payload))


def of_run(run: RunRecord, hostname: str, *, again: bool, payload: Mapping[str, Any] | None = None) -> list[Told]:
    """All that it takes to show the run as it is, whatever was shown of it before.

    Args:
        hostname: the worker under which it is shown.
        again: it may have been shown in a state that outranks the present one.
        payload: input and result, where they are to be seen.
    """
    if run.status is RunStatus.QUEUED and not again:
        return [sent_of_run(run, hostname, payload)]
    begun_at = run.started_at or run.created_at
    told = [_event("task-received", run.id, hostname, run.created_at, **_head_of_run(run, payload))]
    if run.status is not RunStatus.QUEUED and run.started_at is not None:
        told.append(_event("task-started", run.id, hostname, begun_at))
    if again:
        told.append(_event("task-retried", run.id, hostname, run.updated_at))
    if run.status is RunStatus.RUNNING and (again or run.started_at is None):
        told.append(_event("task-started", run.id, hostname, begun_at))
    elif run.status not in (RunStatus.QUEUED, RunStatus.RUNNING):
        told.append(_state_of_run(run, hostname, begun_at, payload))
    return told


def of_step(step: StepRecord, hostname: str) -> list[Told]:
    """The same of a step; nothing of one that is no task, or that was never sent."""
    if step.kind not in _TASKS or not step.task or not (step.sends or step.attempt):
        return []
    uuid = task_id_of(step)
    head: dict[str, Any] = {
        "name": step.task,
        "args": "()",
        "kwargs": literal({"step": step.key, "saga_run": step.run_id}),
    }
    head |= {"root_id": step.run_id, "parent_id": step.run_id, "retries": step.failures, "eta": None, "expires": None}
    if not step.attempt:
        told = [_event("task-sent", uuid, hostname, step.created_at, **head)]
    else:
        told = [_event("task-received", uuid, hostname, step.created_at, **head)]
        if step.started_at is not None:
            told.append(_event("task-started", uuid, hostname, step.started_at))
    return [*told, *_state_of_step(step, uuid, hostname)]


def _state_of_step(step: StepRecord, uuid: str, hostname: str) -> Iterator[Told]:
    at = step.ended_at or step.started_at or step.created_at
    line = literal({"status": step.status.value, "attempt": step.attempt} | _error(step))
    runtime_s = (at - (step.started_at or at)).total_seconds()
    if step.status is StepStatus.DONE:
        yield _event("task-succeeded", uuid, hostname, at, result=line, runtime=max(0.0, runtime_s), exception=None)
    elif step.status in (StepStatus.FAILED, StepStatus.LOST):
        yield _event("task-failed", uuid, hostname, at, result=line, exception=line, traceback=None)
    elif step.status is StepStatus.CANCELLED:
        yield _event("task-revoked", uuid, hostname, at, terminated=False, signum=None, expired=False)
    elif step.status is StepStatus.SCHEDULED and step.attempt:
        yield _event("task-retried", uuid, hostname, at, exception=line, traceback=None)


def _state_of_run(run: RunRecord, hostname: str, begun_at: datetime, payload: Mapping[str, Any] | None) -> Told:
    line = _line_of(run, payload)
    if not run.status.is_end:
        return _event(f"task-{run.status.value}", run.id, hostname, run.updated_at, result=line)
    at = run.ended_at or run.updated_at
    runtime_s = max(0.0, (at - begun_at).total_seconds())
    if run.status is RunStatus.COMPLETED:
        return _event("task-succeeded", run.id, hostname, at, result=line, runtime=runtime_s, exception=None)
    if run.status is RunStatus.CANCELLED:
        ended = {"terminated": False, "signum": None, "expired": False}
        return _event("task-revoked", run.id, hostname, at, result=line, runtime=runtime_s, **ended)
    failed = {"exception": line, "traceback": None}
    return _event("task-failed", run.id, hostname, at, result=line, runtime=runtime_s, **failed)


def _head_of_run(run: RunRecord, payload: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is searched; `saga_run` also of the steps."""
    kwargs: dict[str, Any] = {"key": run.key, "saga_run": run.id, "version": run.version}
    if run.generation > 1:
        kwargs["generation"] = run.generation
    if payload is not None and "input" in payload:
        kwargs["input"] = payload["input"]
    return {
        "name": f"saga.{run.saga}",
        "args": "()",
        "kwargs": literal(kwargs),
        "root_id": run.id,
        "parent_id": run.parent_id,
        "retries": run.generation - 1,
        "eta": None if run.not_before_at is None else run.not_before_at.isoformat(),
        "expires": None if run.deadline_at is None else run.deadline_at.isoformat(),
    }


def _line_of(run: RunRecord, payload: Mapping[str, Any] | None) -> str:
    line: dict[str, Any] = {"status": run.status.value}
    if run.status is RunStatus.SUSPENDED:
        line["reason"] = run.reason
    if run.status is not RunStatus.COMPLETED:
        line |= ({} if run.error_step is None else {"step": run.error_step}) | _error(run)
    if run.step_seq:
        line["steps"] = run.step_seq
    if payload is not None and run.status is RunStatus.COMPLETED:
        line["result"] = payload.get("result")
    return literal(line)


def _error(record: RunRecord | StepRecord) -> dict[str, str]:
    """The class alone: a message may hold anything."""
    try:
        return {} if record.error is None else {"error": record.error.type_name}
    except PayloadUnreadable:
        return {}


def _event(kind: str, uuid: str, hostname: str, at: datetime, /, **fields: Any) -> Told:
    # Without a clock of its own: whoever receives it puts it behind what came before.
    said = {"uuid": uuid, "hostname": hostname, "pid": os.getpid(), "utcoffset": utcoffset()}
    return {"type": kind, "timestamp": at.timestamp(), **said, **fields}
