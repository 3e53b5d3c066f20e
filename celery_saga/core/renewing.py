"""Continuing as new: a body that would go on for ever begins again with other input, in a new generation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from celery_saga.core import trace_context, wakeup
from celery_saga.core.generation import start_over
from celery_saga.core.records import Action, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus

_LOOKS = 10
"""While something is alive the run is looked at so often in the time that a wake-up is given."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The body asked to begin again; codec text of its next input."""

    input_text: str


def renew(s: Snapshot, end: Renewed, now: datetime, resend_s: float) -> Snapshot:
    """Begin a new generation with this input, once nothing of the old one is alive; until then the run waits for it.

    What the old generation did is kept, and its undos are given up: its steps stay archived under it. Signals that
    nobody has taken stay in the inbox, the deadline counts on, id and key are the same; so is the digest of the
    arguments that the run was started with, by which another start is told to be the same.
    """
    if any(not (step.status.is_end or _only_listens(step)) for step in s.steps.values()):
        # What an ended join has abandoned wakes nobody when it ends.
        again_at = wakeup.after(now, resend_s / _LOOKS)
        deadline_at = s.run.deadline_at
        return s.with_run(wake_at=again_at if deadline_at is None else min(again_at, deadline_at))
    deadline_at = s.run.deadline_at
    s = s.with_run(headers_text=trace_context.renewed(s.run))
    s = s.with_run(input_text=end.input_text, cut_text=json.dumps(list(s.steps)), failures=0, not_before_at=None)
    s = start_over(s, now, resend_s).with_run(deadline_at=deadline_at)
    return s.note(now, Action.CONTINUE, "run", detail=f"generation {s.run.generation}")


def _only_listens(step: StepRecord) -> bool:
    return step.kind is StepKind.CHORD and step.status is StepStatus.WAITING
