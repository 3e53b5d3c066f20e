"""What a run waits for, as its handle tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from celery_saga.client.lanes import where_it_queues
from celery_saga.core.headers import missing
from celery_saga.core.lanes import Place
from celery_saga.core.records import Action, HistoryRecord, RunRecord, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import Admission, RunStatus, StepStatus

__all__ = ["WaitKind", "WaitingOn", "waiting_on"]


class WaitKind(StrEnum):
    """What is to come before the run goes on."""

    SIGNAL = "signal"
    TIMER = "timer"  # a sleep, or a start that was put off
    STEP = "step"
    CHILD = "child"
    UNDO = "undo"
    LANE = "lane"  # it waits to be let in, or what it queues in is paused
    PERSON = "person"  # the run is parked, or its undos are used up


@dataclass(frozen=True, slots=True)
class WaitingOn:
    """One thing that a run waits for.

    `name` is that of the signal, the key of the step, timer or child, the key of the step that is being undone, where
    it queues (`lane A: place 3`, `saga checkout: paused by ...`), or the reason for which a person has to act. `since`
    and `until` are aware UTC; `until` is when the wait is over whatever comes, or when the next attempt is due; None:
    open.
    """

    kind: WaitKind
    name: str
    since: datetime
    until: datetime | None = None


_PARKINGS = (Action.PARK, Action.SUSPEND)
_AT_WORK = (StepStatus.SCHEDULED, StepStatus.RUNNING)
_WAITS = {
    StepKind.SIGNAL: WaitKind.SIGNAL,
    StepKind.TIMER: WaitKind.TIMER,
    StepKind.CHILD: WaitKind.CHILD,
    StepKind.UNDO: WaitKind.UNDO,  # of a child, which undoes itself
}
_WORK = {StepKind.STEP: WaitKind.STEP, StepKind.UNDO: WaitKind.UNDO}


def waiting_on(
    seen: Snapshot, history: Callable[[], list[HistoryRecord]], place: Callable[[], Place | None]
) -> list[WaitingOn]:
    """What the run waits for now, oldest first; a person or its lane first of all. Empty once it has ended well.

    Args:
        history: reads the run's history; called only of a parked run.
        place: reads where it queues; called only of a run that waits to be let in.
    """
    found = sorted(_steps(seen), key=lambda each: each.since)
    run = seen.run
    if run.status is RunStatus.SUSPENDED:
        return [_person(run, history()), *found]
    if run.status is RunStatus.COMPENSATION_FAILED:
        return [WaitingOn(WaitKind.PERSON, "undo_failed", run.ended_at or run.updated_at)]
    if run.status.is_forward and run.not_before_at is not None:
        return [WaitingOn(WaitKind.TIMER, "start", run.created_at, run.not_before_at), *found]
    if run.admission == Admission.ASKED:
        queues = place()
        found = [each for each in found if each.kind is not WaitKind.STEP]
        return found if queues is None else [WaitingOn(WaitKind.LANE, where_it_queues(queues), run.updated_at), *found]
    return found


def _steps(seen: Snapshot) -> Iterator[WaitingOn]:
    is_parked = seen.is_parked
    for step in seen.steps.values():
        if step.status is StepStatus.WAITING and not is_parked:
            kind = _WAITS.get(step.kind)
            if kind is not None:
                names = missing(step, seen.inbox) if kind is WaitKind.SIGNAL else (step.undo_of or step.key,)
                for name in names:
                    yield WaitingOn(kind, name, step.created_at, step.due_at)
        elif step.status in _AT_WORK and step.kind in _WORK:
            yield _work(step)


def _work(step: StepRecord) -> WaitingOn:
    is_running = step.status is StepStatus.RUNNING
    since = step.started_at if is_running and step.started_at is not None else step.created_at
    return WaitingOn(_WORK[step.kind], step.undo_of or step.key, since, None if is_running else step.due_at)


def _person(run: RunRecord, history: list[HistoryRecord]) -> WaitingOn:
    parked = [row.at for row in history if row.action in _PARKINGS]
    return WaitingOn(WaitKind.PERSON, run.reason or "", parked[-1] if parked else run.updated_at)
