"""The compensation desk: runs that need a person, why, since when, and what can be done about each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from celery_saga.client.filters import whole_number
from celery_saga.client.page import Page
from celery_saga.core import asked, attention, failure
from celery_saga.core.failure import Failure
from celery_saga.core.ports import DeskRow, DeskUndo
from celery_saga.core.records import RunRecord
from celery_saga.core.status import StepStatus

if TYPE_CHECKING:
    from celery_saga.core.ports import Store

__all__ = ["REASONS", "SENTENCES", "DeskEntry", "FailingUndo", "desk"]

SENTENCES = {
    "body_error": "its body raised an error that is no declared one: mend the code, then resume it",
    "deadline": "its deadline has passed after the pivot: resume it without one, or compensate it",
    "input": "its stored arguments do not fit the body: deploy code that takes them, then resume it",
    "non_determinism": "its body asks for something else than is recorded: deploy the old order, then resume it",
    "on_failure": "a step has failed: resume tries it again, skip takes it for done, compensate undoes the run",
    "operator": "a person has suspended it: resume it",
    "pivot": "a step has failed after the pivot: resume tries it again, skip takes it for done",
    "stalled": "it killed or hung its process too often: mend the code, then resume it",
    "undo_failed": "an undo is used up: retry it, or say that it is done or skipped",
    "undo_failing": "an undo keeps failing and is still tried: retry it with other arguments, or close it by hand",
    "unreadable": "something of it cannot be read: give the key or the storage back, then resume it; until then all "
    "else is refused but cancel(compensate=False)",
    "undo_unknown": "nobody knows whether a step has happened: retry its undo with the result, or close it by hand",
}
"""What a run on the desk needs, for people, by why it is there."""

REASONS = tuple(why for why in SENTENCES if why != "undo_failing")
"""What runs are parked for."""


@dataclass(frozen=True, slots=True)
class FailingUndo:
    """An undo that has failed, or that cannot be ordered because the outcome of its step is unknown.

    Args:
        step: key of the step that it undoes.
        task: name of the undo's task; of an undo that was not ordered, that of the step.
        status: of the undo; `failed` also where it was not ordered.
        attempts, failures, stalls: claims of it, and how many of them raised, or ended unseen.
        error: of its last attempt; of an undo that was not ordered, that of the step.
        next_try_at: when it is tried again; None: never by itself.
        verbs: what can be done about it now.
    """

    step: str
    task: str
    status: StepStatus
    attempts: int
    failures: int
    stalls: int
    error: Failure | None
    next_try_at: datetime | None
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeskEntry:
    """A run that needs a person.

    Args:
        run: without input and result.
        why: the reason of its parking; `undo_failed`: it ended with undos used up; `undo_failing`: an undo has failed
            five times and is still tried.
        sentence: the same for people, with what to do.
        since: since when it needs one.
        undos: those that have failed, oldest first.
        verbs: what can be done about the run as a whole now: methods of its handle.
    """

    run: RunRecord
    why: str
    sentence: str
    since: datetime
    undos: tuple[FailingUndo, ...]
    verbs: tuple[str, ...]


def desk(store: Store, *, saga: str | None, limit: int, after: str | None) -> Page[DeskEntry]:
    """A page of the desk, the run that has waited longest first.

    Raises:
        InvalidPayload: a value that is not allowed; nothing was read.
    """
    most = whole_number(limit, "limit", "desk()")
    if saga is not None:
        asked.text("desk()", "saga", saga)
    rows = store.desk(saga=saga, after=_place(after), limit=most + 1)
    page = rows[:most]
    return Page(tuple(map(_entry, page)), _cursor(page[-1].run) if len(rows) > most else None)


def _cursor(run: RunRecord) -> str:
    return f"{(run.attention_at or run.updated_at).isoformat()}~{run.id}"


def _place(after: str | None) -> tuple[datetime, str] | None:
    if after is None:
        return None
    at, _, run_id = asked.text("desk()", "after", after).partition("~")
    try:
        return asked.utc(datetime.fromisoformat(at)), run_id
    except ValueError:
        rule = "takes `next` of the page before"
        raise asked.refused("desk()", "after", rule, after, "nothing was read") from None


def _entry(row: DeskRow) -> DeskEntry:
    run, why = row.run, attention.why(row.run)
    sentence = SENTENCES.get(why, "resume it")
    since = run.attention_at or run.updated_at
    undos = tuple(_undo(undo, run) for undo in row.undos)
    return DeskEntry(run, why, sentence, since, undos, attention.verbs_of_run(run))


def _undo(undo: DeskUndo, run: RunRecord) -> FailingUndo:
    error = None if undo.error_text is None else failure.from_text(undo.error_text)
    verbs = () if attention.is_unreadable(run) else attention.verbs_of_undo(undo.status)
    counts = (undo.attempt, undo.failures, undo.stalls)
    next_at = None if undo.status.is_end else undo.next_at
    return FailingUndo(undo.step, undo.task, undo.status, *counts, error, next_at, verbs)
