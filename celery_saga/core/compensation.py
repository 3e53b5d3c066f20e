"""Undoing what was done: last in first out, one undo at a time, none while an attempt of the forward part still runs.

Theory of operation. Once the forward part has ended, `undo_next` is called after every transition. It waits while a
forward attempt is alive (quiesce), then orders the undo of the step with the highest `seq` that succeeded, or may have,
and has not been undone; when none is left the run ends. The order of undos is the reverse of `seq`, never of a time.
"""

from __future__ import annotations

import json
from collections.abc import Set
from datetime import datetime

from celery_saga.core import chords
from celery_saga.core.children import is_of_child, reports
from celery_saga.core.focus import Extent
from celery_saga.core.generation import start_over
from celery_saga.core.joins import ended
from celery_saga.core.orders import RunSpec
from celery_saga.core.parking import park, release
from celery_saga.core.records import Action, StepKind, StepRecord, undo_key
from celery_saga.core.rollback import is_rolled_back, open_rollbacks
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.stack import WHOLE, need_below, need_stacks
from celery_saga.core.status import RunEvent, RunStatus, StepEvent, StepStatus
from celery_saga.core.undo import needs_undo, order_undo

_LIVE = (StepStatus.SCHEDULED, StepStatus.RUNNING)
_USED_UP = (StepStatus.FAILED, StepStatus.LOST)
_END_EVENT = {
    RunStatus.COMPLETED: RunEvent.COMPLETED,
    RunStatus.FAILED: RunEvent.FAILED,
    RunStatus.CANCELLED: RunEvent.CANCELLED,
}


def undo_unknowns(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """While the run goes forward: a step that failed with an unknown effect is undone before the body sees it."""
    for step in tuple(s.where(*_USED_UP, undo=False, need=Extent.PART)):
        if step.maybe and step.kind is not StepKind.CHILD and s.run.status.is_forward and needs_undo(s, step):
            s = order_undo(s, step, now, resend_s)
            undo = s.steps.get(undo_key(step.key))
            if undo is not None and undo.status.is_end:  # skipped: its end reaches the body at once
                s = ended(s, undo.key, now, resend_s)
    used_up = next(s.where(*_USED_UP, undo=True, need=Extent.PART), None)
    if used_up is None or not s.run.status.is_forward:
        return s
    # Going on would drop it silently: the run might complete without it.
    return park(s, now, "undo_failed", detail=f"undo {used_up.key!r} is used up", step=used_up.key)


def undo_next(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Order the next undo, or end the run when none is left; nothing while an attempt is alive."""
    while s.run.status is RunStatus.COMPENSATING:
        need_stacks(s, (WHOLE,))
        for chord in [x for x in s.where(StepStatus.HELD, need=Extent.PART) if x.kind is StepKind.CHORD]:
            s = release(s, chord, now, resend_s)
        is_alive = any(x.kind is not StepKind.CHORD for x in s.where(*_LIVE, need=Extent.PART))
        if is_alive or any(is_of_child(x) for x in s.where(StepStatus.WAITING, need=Extent.PART)):
            return s
        held = list(s.where(StepStatus.HELD, need=Extent.PART))
        if held:
            return release(s, max(held, key=lambda x: _place_of_undone(s, x)), now, resend_s)
        failed = next(s.where(*_USED_UP, undo=True, need=Extent.PART), None)
        if failed is not None and _holds(s):
            return park(s, now, "undo_failed", detail=f"undo {failed.key!r} is used up", step=failed.key)
        pending = _pending(s)
        if not pending:
            return s if chords.is_under_way(s) else end(s, now, resend_s)
        s = order_undo(s, max(pending, key=lambda x: (x.seq or 0, x.ordinal)), now, resend_s)
    return s


def _place_of_undone(s: Snapshot, undo: StepRecord) -> int:
    undone = s.step(undo.undo_of or "")
    return 0 if undone is None else undone.seq or 0


def _holds(s: Snapshot) -> bool:
    """An undo that is used up keeps the others back until a person has acted."""
    return s.run.restart or RunSpec.from_text(s.run.spec_text).on_undo_failure == "hold"


def _pending(s: Snapshot) -> list[StepRecord]:
    """Steps that are still to be undone, the next one among them; as many as it takes to tell."""
    if s.run.restart:
        s.need(Extent.ALL)
    only_lost = s.run.skip_undos and s.run.outcome is RunStatus.COMPLETED and not s.run.restart
    stacks = [row.undo_of or "" for row in open_rollbacks(s)] if only_lost else [WHOLE]
    if not s.run.skip_undos or only_lost:
        need_stacks(s, stacks)
    cut = set(json.loads(s.run.cut_text or "[]")) if s.run.restart else frozenset()
    pending = [x for x in s.steps.values() if needs_undo(s, x) and _is_to_undo(s, x, cut)]
    if not pending and (not s.run.skip_undos or only_lost):
        for prefix in stacks:
            need_below(s, prefix)
    return pending


def _is_to_undo(s: Snapshot, step: StepRecord, cut: Set[str]) -> bool:
    """On the way to a new generation what is cut, in a completed run what lost a race, else everything."""
    if s.run.restart:
        return step.key in cut
    if s.run.skip_undos:
        return s.run.outcome is RunStatus.COMPLETED and is_rolled_back(s, step)
    return True


def end(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """All undos are through: the run ends as its forward part did, or as `compensation_failed`, or starts over."""
    run = s.run
    if run.restart:
        return start_over(s, now, resend_s)
    for row in open_rollbacks(s):
        s = s.move_step(row.key, StepEvent.FIRED, wake_at=None, ended_at=now)
    failed = any(True for _ in s.where(*_USED_UP, undo=True, need=Extent.PART))  # the stack of the whole run is here
    outcome = run.outcome or RunStatus.FAILED
    event = RunEvent.UNDO_FAILED if failed else _END_EVENT[outcome]
    s = s.move_run(event, ended_at=now, **reports(run, now, resend_s))
    only_cancelled = outcome is RunStatus.CANCELLED and s.history and s.history[-1].action is Action.CANCEL
    return s if only_cancelled else s.note(now, Action.END, "run", detail=str(s.run.status))
