"""Rollbacks: a part that lost a race, or a scope that was left by an error, is undone while the run goes on.

Theory of operation. A rollback is a row of its own (`<prefix>!rollback`), waiting until everything within its prefix
has ended and is undone, last in first out, one undo at a time; then who waits for it is woken. Of two rollbacks of
which one lies within the other, the outer one alone orders undos. Where the run itself compensates first, the rollback
is dropped: its steps are on the same stack.
"""

from __future__ import annotations

from datetime import datetime

from celery_saga.core.focus import is_inside
from celery_saga.core.owners import wake_owner
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.stack import need_below, need_stacks
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.core.undo import needs_undo, order_undo

_WORKING = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING)


def rollback_key(prefix: str) -> str:
    """Key of the row that stands for the rollback of a part or scope."""
    return prefix + "!rollback"


def begin_rollback(s: Snapshot, prefix: str, now: datetime) -> Snapshot:
    """Begin to undo all that lies within a part or scope; nothing where there is nothing to undo.

    Args:
        prefix: key of the part, or path of the scope without its closing slash.
    """
    need_stacks(s, (prefix,))
    inside = _inside(s, prefix)
    if not any(x.status in _WORKING or x.status is StepStatus.WAITING or needs_undo(s, x) for x in inside):
        return s
    row = StepRecord(
        run_id=s.run.id,
        generation=s.run.generation,
        key=rollback_key(prefix),
        kind=StepKind.ROLLBACK,
        status=StepStatus.WAITING,
        created_at=now,
        scope=prefix + "/",
        ordinal=-1,
        born=s.run.generation,
        undo_of=prefix,
    )
    return s.with_step(row)


def roll_on(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Order the next undo of each open rollback, and end those that are through; the run goes forward meanwhile."""
    rows = open_rollbacks(s)
    if s.run.status.is_forward:
        need_stacks(s, (row.undo_of or "" for row in rows))
    for row in rows:
        if not s.run.status.is_forward:
            return s
        s = _roll(s, row, now, resend_s)
    return s


def _roll(s: Snapshot, row: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    inside = _inside(s, row.undo_of or "")
    if any(x.status in _WORKING or x.status is StepStatus.WAITING for x in inside):
        return s
    pending = [x for x in inside if needs_undo(s, x)]
    if pending and _is_covered(s, row):
        return s
    if pending:
        s = order_undo(s, max(pending, key=lambda x: (x.seq or 0, x.ordinal)), now, resend_s)
        return s if not s.run.status.is_forward else _again_if_skipped(s, row, pending, now, resend_s)
    need_below(s, row.undo_of or "")
    s = s.move_step(row.key, StepEvent.FIRED, wake_at=None, ended_at=now)
    return wake_owner(s, row.key, now, resend_s)


def _is_covered(s: Snapshot, row: StepRecord) -> bool:
    """It lies within another open rollback, which orders its undos in their place."""
    return any(x.key != row.key and is_inside(row.undo_of or "", x.undo_of or "") for x in open_rollbacks(s))


def _again_if_skipped(
    s: Snapshot, row: StepRecord, pending: list[StepRecord], now: datetime, resend_s: float
) -> Snapshot:
    """An undo that is skipped for its unknown outcome ends at once: the next one follows."""
    ordered = sum(1 for x in pending if not needs_undo(s, x))
    live = any(x.status in _WORKING for x in _inside(s, row.undo_of or ""))
    return _roll(s, row, now, resend_s) if ordered and not live else s


def open_rollbacks(s: Snapshot) -> list[StepRecord]:
    """Rollbacks that are not through."""
    return [x for x in s.steps.values() if x.kind is StepKind.ROLLBACK and x.status is StepStatus.WAITING]


def is_rolled_back(s: Snapshot, step: StepRecord) -> bool:
    """The step lies within an open rollback."""
    return any(is_inside(step.key, row.undo_of or "") for row in open_rollbacks(s))


def _inside(s: Snapshot, prefix: str) -> list[StepRecord]:
    return [x for x in s.steps.values() if is_inside(x.key, prefix) and x.kind is not StepKind.ROLLBACK]
