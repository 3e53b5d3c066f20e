"""Records as JSON documents: the one place that says how a run, a step or a history row looks to a reader."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from celery_saga.client.bulk import BulkResult, Refused
from celery_saga.client.desk import DeskEntry
from celery_saga.client.lanes import LaneInfo
from celery_saga.client.progress import Progress, of_step
from celery_saga.client.waiting_on import WaitingOn
from celery_saga.core import codec
from celery_saga.core.failure import Failure
from celery_saga.core.masking import masked
from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.schedules import FireRecord, ScheduleRecord
from celery_saga.engine.redispatching import Redispatched
from celery_saga.errors import InvalidPayload

__all__ = [
    "bulk_document",
    "cancel_document",
    "desk_document",
    "failure_document",
    "fire_document",
    "history_document",
    "lane_document",
    "progress_document",
    "readable",
    "redispatch_document",
    "run_document",
    "schedule_document",
    "shown_document",
    "signal_document",
    "step_document",
    "text",
    "waiting_document",
]

Document = dict[str, Any]


def text(document: object, *, indent: int | None = None) -> str:
    """JSON of a document; on one line unless `indent` is given."""
    return json.dumps(document, ensure_ascii=False, indent=indent)


def run_document(run: RunRecord) -> Document:
    """A run; `input` and `result` are there only where they were loaded."""
    document: Document = {
        "id": run.id,
        "saga": run.saga,
        "version": run.version,
        "key": run.key,
        "status": run.status.value,
        "reason": run.reason,
        "generation": run.generation,
        "created_at": readable(run.created_at),
        "started_at": readable(run.started_at),
        "updated_at": readable(run.updated_at),
        "ended_at": readable(run.ended_at),
        "deadline_at": readable(run.deadline_at),
        "wake_at": readable(run.wake_at),
        "priority": run.priority,
        "lane": run.lane,
        "admission": run.admission or None,
        "tags": list(run.tags),
        "error": failure_document(run.error),
        "error_step": run.error_step,
        "parent_id": run.parent_id,
        "scheduled_for": readable(run.scheduled_for),
        "purged": run.purged_at is not None,
    }
    if run.input_text is not None:
        document["input"] = stored(run.input_text)
        document["result"] = stored(run.result_text)
    return document


def shown_document(
    run: RunRecord,
    steps: Iterable[StepRecord],
    waiting: Iterable[WaitingOn],
    signals: Iterable[SignalRecord],
    *,
    traceback: bool = False,
) -> Document:
    """A run with its `steps`, what it waits for (`waiting_on`) and its `signals`.

    Args:
        traceback: with the stored traceback of its error.
    """
    return {
        **run_document(run),
        "error": failure_document(run.error, traceback=traceback),
        "steps": [step_document(step) for step in steps],
        "waiting_on": [waiting_document(each) for each in waiting],
        "signals": [signal_document(signal) for signal in signals],
    }


def step_document(step: StepRecord) -> Document:
    """A step; `attempt` counts claims from 1, `failures` attempts that raised, `stalls` attempts that ended unseen."""
    args, kwargs = _arguments(step)
    return {
        "key": step.key,
        "kind": step.kind.value,
        "task": step.task,
        "status": step.status.value,
        "generation": step.generation,
        "attempt": step.attempt,
        "failures": step.failures,
        "stalls": step.stalls,
        "maybe": step.maybe,
        "seq": step.seq,
        "undo_of": step.undo_of,
        "child_id": step.task_id if step.kind is StepKind.CHILD else None,
        "args": args,
        "kwargs": kwargs,
        "result": stored(step.result_text),
        "error": failure_document(step.error),
        "progress": _progress_document(step),
        "idempotency_key": step.idempotency_key,
        "owner": step.owner,
        "created_at": readable(step.created_at),
        "started_at": readable(step.started_at),
        "ended_at": readable(step.ended_at),
        "due_at": readable(step.due_at),
        "wake_at": readable(step.wake_at),
        "lease_until": readable(step.lease_until),
    }


def _arguments(step: StepRecord) -> tuple[Any, Any]:
    found: Any = stored(step.args_text) or ([], {})
    return (found, {}) if isinstance(found, dict) else tuple(found)


def cancel_document(before: RunRecord, answer: Document) -> Document:
    """What a cancel has answered; `changed` is False where the run had ended, or its forward part had.

    Args:
        before: the run as it was.
    """
    return {"run": before.id, **answer, "changed": not before.status.is_end and before.outcome is None}


def _progress_document(step: StepRecord) -> Document | None:
    found = of_step(step)
    return None if found is None else progress_document(found)


def progress_document(progress: Progress) -> Document:
    """How far a step is."""
    told = {"current": progress.current, "total": progress.total, "message": progress.message}
    return {**told, "at": readable(progress.at)}


def waiting_document(waiting: WaitingOn) -> Document:
    """One thing that a run waits for."""
    told = {"kind": waiting.kind.value, "name": waiting.name}
    return {**told, "since": readable(waiting.since), "until": readable(waiting.until)}


def lane_document(lane: LaneInfo) -> Document:
    """A lane, what is said of it and how it is used."""
    return {name: readable(value) for name, value in asdict(lane).items()}


def history_document(row: HistoryRecord) -> Document:
    """A history row."""
    return {
        "seq": row.seq,
        "at": readable(row.at),
        "action": row.action.value,
        "kind": row.kind,
        "step": row.step,
        "attempt": row.attempt,
        "generation": row.generation,
        "detail": row.detail,
        "by": row.by,
        "reason": row.reason,
    }


def signal_document(signal: SignalRecord) -> Document:
    """A signal of the inbox; `taken_by` is the key of the wait that took it."""
    return {
        "name": signal.name,
        "id": signal.signal_id,
        "received_at": readable(signal.received_at),
        "value": stored(signal.value_text),
        "taken_by": signal.taken_by,
    }


def schedule_document(schedule: ScheduleRecord) -> Document:
    """A schedule; `pattern` is a cron expression, seconds, or an instant, as `kind` says."""
    return {
        "saga": schedule.saga,
        "id": schedule.id,
        "version": schedule.version,
        "kind": schedule.kind.value,
        "pattern": schedule.pattern,
        "tz": schedule.tz,
        "input": stored(schedule.input_text),
        "overlap": schedule.overlap,
        "catch_up": schedule.catch_up,
        "source": schedule.source,
        "driver": schedule.driver,
        "created_at": readable(schedule.created_at),
        "updated_at": readable(schedule.updated_at),
        "next_at": readable(schedule.next_at),
        "last_fire_at": readable(schedule.last_fire_at),
        "last_run_id": schedule.last_run_id,
        "paused": schedule.paused,
        "pause_reason": schedule.pause_reason,
        "pause_by": schedule.pause_by,
        "failures": schedule.failures,
        "error": schedule.error,
    }


def fire_document(fire: FireRecord) -> Document:
    """What became of a nominal time, or of `count` of them in a row that were skipped for one reason."""
    return {
        "nominal_at": readable(fire.nominal_at),
        "until_at": readable(fire.until_at),
        "count": fire.count,
        "outcome": fire.outcome.value,
        "reason": None if fire.reason is None else fire.reason.value,
        "run_id": fire.run_id,
        "at": readable(fire.at),
    }


def desk_document(entry: DeskEntry) -> Document:
    """A run that needs a person."""
    undos = [
        {
            "step": undo.step,
            "task": undo.task,
            "status": undo.status.value,
            "attempts": undo.attempts,
            "failures": undo.failures,
            "stalls": undo.stalls,
            "error": failure_document(undo.error),
            "next_try_at": readable(undo.next_try_at),
            "verbs": list(undo.verbs),
        }
        for undo in entry.undos
    ]
    told = {"why": entry.why, "sentence": entry.sentence, "since": readable(entry.since)}
    return {"run": run_document(entry.run), **told, "undos": undos, "verbs": list(entry.verbs)}


def bulk_document(result: BulkResult) -> Document:
    """What one verb has done to many runs; `runs` are those that were looked at, as they were before."""
    return {
        "verb": result.verb,
        "dry_run": result.dry_run,
        "matched": result.matched,
        "done": list(result.done),
        "unchanged": list(result.unchanged),
        "refused": [_refused_document(each) for each in result.refused],
        "next": result.next,
        "stopped": None if result.stopped is None else _refused_document(result.stopped),
        "runs": [{"id": run.id, "saga": run.saga, "key": run.key, "status": run.status.value} for run in result.runs],
    }


def redispatch_document(result: Redispatched) -> Document:
    """What was sent again."""
    wake_ups = [
        {
            "run_id": each.run_id,
            "saga": each.saga,
            "key": each.key,
            "step": each.step,
            "task": each.task,
            "queue": each.queue,
            "last_sent_at": readable(each.last_sent_at),
            "sends": each.sends,
        }
        for each in result.wake_ups
    ]
    return {"dry_run": result.dry_run, "wake_ups": wake_ups, "unsent": result.unsent}


def _refused_document(refused: Refused) -> Document:
    return {"run_id": refused.run_id, "code": refused.code, "message": refused.message}


def failure_document(failure: Failure | None, *, traceback: bool = False) -> Document | None:
    """An error with its causes.

    Args:
        traceback: with the stored traceback of the error itself; None where none is stored.
    """
    if failure is None:
        return None
    document: Document = {
        "type": failure.type_name,
        "message": masked(failure.message),
        "code": failure.code,
        "cause": failure_document(failure.cause),
    }
    return {**document, "traceback": failure.traceback or None} if traceback else document


def stored(stored_text: str | None) -> Any:
    """What a stored text holds, as plain JSON, its tokens masked; a text that cannot be read is shown as it is."""
    if stored_text is None:
        return None
    shown = masked(stored_text)
    try:
        return readable(codec.decode(shown))
    except InvalidPayload:
        return {"unreadable": shown}


def readable(value: Any) -> Any:
    """A decoded value as plain JSON.

    Instants and dates as ISO 8601, durations in seconds, Decimal and UUID as text, bytes as base64, sets as sorted
    lists. What it was is no longer told; the stored text is.
    """
    if isinstance(value, Enum):
        return readable(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): readable(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((readable(item) for item in value), key=text)
    if isinstance(value, (list, tuple)):
        return [readable(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return repr(value)
