"""What the world is told of a run: its life-cycle events, and that its result is to be published; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from celery_saga.core.records import Action, RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus

__all__ = ["EVENTS", "Announcement", "Purpose", "RunNews", "Wanted", "news_of_start", "news_of_transition"]


class RunNews(StrEnum):
    """The life-cycle events of a run."""

    STARTED = "started"  # its row is committed
    SIGNAL = "signal"  # a wait has taken a signal
    SUSPENDED = "suspended"  # it is parked until a person acts
    RESUMED = "resumed"  # it goes on after that
    COMPENSATING = "compensating"  # its undos run
    RESTARTED = "restarted"  # it starts over, in a new generation
    CONTINUED = "continued"  # its body began again with other input, in a new generation
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    COMPENSATION_FAILED = "compensation_failed"  # it has ended, and an undo waits for a person


EVENTS = tuple(each.value for each in RunNews)
"""Their names, as they stand in routing keys."""

_OF_STATUS = {
    RunStatus.SUSPENDED: RunNews.SUSPENDED,
    RunStatus.COMPENSATING: RunNews.COMPENSATING,
    RunStatus.COMPLETED: RunNews.COMPLETED,
    RunStatus.FAILED: RunNews.FAILED,
    RunStatus.CANCELLED: RunNews.CANCELLED,
    RunStatus.COMPENSATION_FAILED: RunNews.COMPENSATION_FAILED,
}


class Purpose(StrEnum):
    """What a row of the outbox is there for; each has a relay of its own."""

    EVENT = "event"  # to be published on the exchange
    RESULT = "result"  # the app's result backend is to show the run as it is now
    TASK = "task"  # Flower is to show the run as it is now
    AGAIN = "again"  # no row has it: who tells Flower again of what has ended is the relay of it


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be announced.

    Args:
        events: names of life-cycle events.
        results: that a run has ended, or has left its end again.
        tasks: each new status of a run.
    """

    events: frozenset[str] = frozenset()
    results: bool = False
    tasks: bool = False


@dataclass(frozen=True, slots=True)
class Announcement:
    """One row of the outbox, written with the transition that it tells of.

    `id` is its place among all, 0 until it is stored; of one run a later one has a higher id. `event_id` is the same
    however often it is published. `body_text` is plain JSON.
    """

    id: int
    purpose: Purpose
    run_id: str
    saga: str
    event: str
    event_id: str
    at: datetime
    body_text: str = "{}"


def news_of_start(run: RunRecord, wanted: Wanted, at: datetime) -> list[Announcement]:
    """What the insertion of a run's row announces."""
    found = [_event(run, RunNews.STARTED, at, 0)] if RunNews.STARTED in wanted.events else []
    return [*found, _status(run, at)] if wanted.tasks else found


def news_of_transition(old: Snapshot, new: Snapshot, wanted: Wanted, at: datetime) -> list[Announcement]:
    """What a transition announces, in the order in which it came about.

    Args:
        new: carries its `state_version`, and the history rows that the transition adds.
    """
    run = new.run
    found = [
        _event(run, name, at, number, **more)
        for number, (name, more) in enumerate(_happened(old, new))
        if name in wanted.events
    ]
    if wanted.results and old.run.status is not run.status and (old.run.status.is_end or run.status.is_end):
        event_id = f"{run.id}:{run.state_version}:result"
        found.append(Announcement(0, Purpose.RESULT, run.id, run.saga, run.status.value, event_id, at))
    if wanted.tasks and (old.run.status is not run.status or old.run.generation != run.generation):
        found.append(_status(run, at, old.run.status))
    return found


def _happened(old: Snapshot, new: Snapshot) -> Iterator[tuple[RunNews, dict[str, Any]]]:
    was, now = old.run, new.run
    if new.inbox is not old.inbox:
        open_before = {signal.id for signal in old.inbox if signal.taken_by is None}
        for signal in new.inbox:
            if signal.id in open_before and signal.taken_by is not None and not signal.is_request:
                yield RunNews.SIGNAL, {"signal": {"name": signal.name, "id": signal.signal_id}}
    rows = new.history[len(old.history) :]
    if now.generation != was.generation:
        continued = any(row.action is Action.CONTINUE for row in rows)
        yield (RunNews.CONTINUED if continued else RunNews.RESTARTED), {}
    if was.status is now.status:
        return
    if was.status is RunStatus.SUSPENDED and now.status.is_forward and now.generation == was.generation:
        yield RunNews.RESUMED, {}
    elif now.status in _OF_STATUS:
        yield _OF_STATUS[now.status], {}


def _status(run: RunRecord, at: datetime, was: RunStatus | None = None) -> Announcement:
    body_text = "{}" if was is None else json.dumps({"was": was.value})
    event_id = f"{run.id}:{run.state_version}:task"
    return Announcement(0, Purpose.TASK, run.id, run.saga, run.status.value, event_id, at, body_text)


def _event(run: RunRecord, name: RunNews, at: datetime, number: int, **more: Any) -> Announcement:
    event_id = f"{run.id}:{run.state_version}:{number}"
    body: dict[str, Any] = {
        "id": event_id,
        "event": name.value,
        "run_id": run.id,
        "saga": run.saga,
        "version": run.version,
        "key": run.key,
        "status": run.status.value,
        "generation": run.generation,
        "at": at.isoformat(),
    }
    optional = {
        "parent_id": run.parent_id,
        "reason": run.reason if run.status is RunStatus.SUSPENDED else None,
        "outcome": None if run.outcome is None else run.outcome.value,
        # The class alone: a message may hold anything.
        "error": None if run.error is None or name is RunNews.COMPLETED else run.error.type_name,
        "error_step": None if name is RunNews.COMPLETED else run.error_step,
    }
    body |= {key: value for key, value in optional.items() if value is not None} | more
    return Announcement(0, Purpose.EVENT, run.id, run.saga, name.value, event_id, at, json.dumps(body))
