"""When a run needs a person, since when, and what a person may do then."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core.focus import Extent
from celery_saga.core.records import RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.stack import WHOLE
from celery_saga.core.status import RunStatus, StepStatus

FAILING_AFTER = 5
"""Attempts of an undo after which its run is on the desk, although it is still tried."""

_TRIED = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING)
_MENDABLE = ("on_failure", "pivot")


def attended(s: Snapshot, now: datetime) -> Snapshot:
    """The run with the instant since which it needs a person: kept while it does, taken away once it does not."""
    since = s.run.attention_at
    needs = _needs_person(s)
    if needs is None or needs is (since is not None):
        return s
    return s.with_run(attention_at=now if needs else None)


def _needs_person(s: Snapshot) -> bool | None:
    """Whether it does; None: not to be seen from the steps that are here."""
    if s.is_parked or s.run.status is RunStatus.COMPENSATION_FAILED:
        return True
    if s.run.status.is_end:
        return False
    undos = s.where(*_TRIED, undo=True, need=Extent.PART)
    if any(is_failing(undo.failures, undo.stalls) for undo in undos):
        return True
    is_all_here = s.extent is not Extent.PART or WHOLE in s.stacks
    return False if s.run.attention_at is None or is_all_here else None


def is_failing(failures: int, stalls: int) -> bool:
    """So many attempts of an undo have failed, or ended unseen, that a person should look at it."""
    return failures + stalls >= FAILING_AFTER


def why(run: RunRecord) -> str:
    """Why it needs a person: as it is parked; `undo_failed`; or `undo_failing` while its undo is still tried."""
    if run.status is RunStatus.SUSPENDED:
        return run.reason or "operator"
    return "undo_failed" if run.status is RunStatus.COMPENSATION_FAILED else "undo_failing"


def is_unreadable(run: RunRecord) -> bool:
    """It is parked because something of it cannot be read: until it is resumed, nearly everything is refused."""
    return run.status is RunStatus.SUSPENDED and run.reason == "unreadable"


def verbs_of_run(run: RunRecord) -> tuple[str, ...]:
    """What a person may do to a run on the desk as a whole; what to its undos, `verbs_of_undo` says."""
    if run.status is RunStatus.COMPENSATION_FAILED:
        return ()
    if is_unreadable(run):
        return ("resume",)
    if run.status is not RunStatus.SUSPENDED:
        can_cancel = run.outcome is None or run.restart
        return ("suspend", "cancel") if can_cancel and not run.pivoted else ("suspend",)
    verbs = [] if run.reason == "undo_unknown" else ["resume"]
    if run.outcome is None and not run.restart:
        verbs.append("compensate")
    if (run.outcome is None or run.restart) and not run.pivoted:
        verbs.append("cancel")
    if run.error_step is not None and run.reason in _MENDABLE:
        verbs.append("skip")
    return tuple(verbs)


def verbs_of_undo(status: StepStatus) -> tuple[str, ...]:
    """What a person may do to an undo; nothing while an attempt of it runs."""
    return () if status is StepStatus.RUNNING else ("retry_undo", "resolve_undo")
