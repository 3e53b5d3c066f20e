"""Starting over: a run goes on from a cut, in a new generation, once what lies behind it has been undone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from celery_saga.core import wakeup
from celery_saga.core.cuts import cut_from, is_reopenable
from celery_saga.core.generation import start_over
from celery_saga.core.joins import cancel
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, RunStatus, StepEvent
from celery_saga.core.undo import needs_undo


def restart(s: Snapshot, now: datetime, resend_s: float, *, cut: Iterable[str]) -> Snapshot:
    """Start over because a person said so: failures and the deadline of the run are counted anew.

    Args:
        cut: keys of what is not kept; what is done of it is undone first, what runs is waited for.
    """
    return _start_over(s.with_run(failures=0, deadline_at=None, not_before_at=None), now, resend_s, list(cut))


def _start_over(s: Snapshot, now: datetime, resend_s: float, cut: list[str]) -> Snapshot:
    s = cancel(s, (s.steps[key] for key in cut))
    s = s.with_run(cut_text=json.dumps(cut), ended_at=None)
    if not any(_is_in_the_way(s, s.steps[key]) for key in cut):
        return start_over(s, now, resend_s)
    event = RunEvent.FORWARD_ENDED if s.run.status.is_forward else RunEvent.UNDO_REOPENED
    s = s.move_run(event, restart=True, skip_undos=False, reason=None, wake_at=None, sends=0)
    return replace(s, woken=False)


def _is_in_the_way(s: Snapshot, step: StepRecord) -> bool:
    """The new generation has to wait for it: it is to be undone, runs, or is another run that lives."""
    if step.kind is StepKind.ROLLBACK:
        return False
    return needs_undo(s, step) or not step.status.is_end


def execute_again(s: Snapshot, key: str, now: datetime, resend_s: float, *, delay_s: float = 0.0) -> Snapshot:
    """Execute what has failed again: the step where it is, or from it on in a new generation.

    A new generation where other steps follow, it is a join (of which what is done is kept) or a child, or was undone:
    under its old idempotency key its new effect, and later the undo of that, would be taken for repeats.
    """
    if is_reopenable(s, key):
        return reopen(s, key, now, resend_s, delay_s=delay_s)
    return _start_over(s, now, resend_s, cut_from(s, key))


def reopen(s: Snapshot, key: str, now: datetime, resend_s: float, *, delay_s: float = 0.0) -> Snapshot:
    """Execute a failed, lost or cancelled step again where it is, with fresh counts."""
    step = s.steps[key]
    fresh: dict[str, Any] = {
        "failures": 0,
        "stalls": 0,
        "error_text": None,
        "ended_at": None,
        "seq": None,
        "claim_token": None,
    }
    if step.kind is StepKind.STEP:
        s = s.move_step(key, StepEvent.REOPENED, **fresh)
        return s.with_step(wakeup.scheduled(s.steps[key], now, resend_s, delay_s))
    due_at = None if step.due_at is None else now + (step.due_at - step.created_at)
    return s.move_step(key, StepEvent.REWAITED, **fresh, due_at=due_at, wake_at=due_at)


def is_restartable(status: RunStatus) -> bool:
    """A run in this status may start over."""
    return status in (RunStatus.FAILED, RunStatus.CANCELLED)
