"""Admission: whether a run may be active, as its own record tells; who gets a slot is decided elsewhere, lane by lane.

Theory of operation. A run that needs slots asks for them (`asked`), and is let in once it has them all (`held`); when
nothing of it is active any more it gives them back (`out`), in the very transition after which it only waits. Until it
is let in nothing of it is decided, and its steps are scheduled but not sent, so that nobody can claim them. A run that
shall stop without having come to rest is `leaving`: what runs of it ends, nothing else begins, and then it asks again.
`asks` counts the askings; it fences what is granted. Undos, and tasks hung on signals, need no slot. Children run in
the slot of their parent. A run with "" needs no slot, and nothing here touches it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from celery_saga.core import wakeup
from celery_saga.core.focus import Extent
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import Admission, StepStatus

_FREE = (StepKind.UNDO, StepKind.CHORD)
_GATED = (Admission.ASKED, Admission.LEAVING, Admission.OUT)


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """What is said of a lane. `cap` None: any number at a time; `limit` runs become active in any `window_s` seconds.

    `hold`: `active`, while a run is active; or `life`, from when it is let in first to its end.
    """

    cap: int | None = None
    hold: str = "active"
    limit: int | None = None
    window_s: float | None = None


def lane_name(lane: str) -> str:
    """The row of a lane."""
    return f"lane:{lane}"


def saga_name(saga: str) -> str:
    """The row of all runs of a saga."""
    return f"saga:{saga}"


ALL = "*"
"""The row of all runs."""


def is_gated(run: RunRecord) -> bool:
    """Nothing of it may begin now, but undos."""
    return run.admission in _GATED


def may_begin(run: RunRecord, step: StepRecord) -> bool:
    """An attempt of this step may begin now."""
    return step.kind in _FREE or not is_gated(run)


def moves_slots(old: RunRecord, new: RunRecord) -> bool:
    """The run's slots change with this transition."""
    if not old.admission and not new.admission:
        return False
    ends = new.status.is_end and not old.status.is_end
    return ends or old.asks != new.asks or new.admission not in (old.admission, Admission.LEAVING)


# -- what follows every transition ------------------------------------------------------------------------------------
def follow(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Give the slots back where nothing is active any more, and ask again where something is to begin."""
    now_is = s.run.admission
    if not now_is:
        return s
    if not s.run.status.is_forward:
        return s if now_is == Admission.OUT or is_running(s) else _given_back(s, now, resend_s)
    if now_is == Admission.HELD:
        return s if _is_active(s, now) else _given_back(s, now, resend_s)
    if now_is == Admission.OUT:
        return ask(s, now, resend_s) if _is_wanting(s, now) else s
    if now_is == Admission.LEAVING and not _is_working(s):
        s.need(Extent.LIVE)  # what was kept back may lie elsewhere
        return ask(s, now, resend_s) if _is_wanting(s, now) else _given_back(s, now, resend_s)
    return _gate(s, now)


def _given_back(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    return replace(s.with_run(admission=Admission.OUT), look_at=wakeup.after(now, resend_s))


def ask(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Queue for all the slots that the run needs; what is due of it is kept back until it is let in."""
    s = s.with_run(admission=Admission.ASKED, asks=s.run.asks + 1)
    return _gate(replace(s, look_at=wakeup.after(now, resend_s)), now)


def _gate(s: Snapshot, now: datetime) -> Snapshot:
    """Keep back what is due: unsent, without a wake-up, and so not to be claimed. Back-offs go on."""
    if s.run.sends:
        s = replace(s.with_run(wake_at=s.run.deadline_at), woken=False)
    kept = {
        x.key: replace(x, sends=0, wake_at=None, due_at=None)
        for x in s.steps.values()
        if _is_due(x, now) and (x.sends or x.wake_at is not None)
    }
    return s.with_steps(kept) if kept else s


def _is_due(step: StepRecord, now: datetime) -> bool:
    is_over = step.due_at is None or step.due_at <= now
    return step.status is StepStatus.SCHEDULED and step.kind not in _FREE and is_over


def _is_wanting(s: Snapshot, now: datetime) -> bool:
    """Something of the run is to begin: a decision, or a step."""
    run = s.run
    if run.sends and (run.not_before_at is None or run.not_before_at <= now):
        return True
    return any(_is_due(x, now) for x in s.steps.values())


def is_running(s: Snapshot) -> bool:
    """An attempt of it runs, undos aside."""
    here = any(x.status is StepStatus.RUNNING and x.kind not in _FREE for x in s.steps.values())
    return here or s.is_active_elsewhere


def is_any_active(steps: Iterable[StepRecord]) -> bool:
    """Among these steps some are to run now, or run, or are runs that live; undos aside."""
    return any(_is_active_step(step) for step in steps)


def _is_active_step(step: StepRecord) -> bool:
    if step.kind in _FREE:
        return False
    is_due = step.status is StepStatus.SCHEDULED and step.due_at is None and step.wake_at is not None
    is_child = step.kind is StepKind.CHILD and step.status is StepStatus.WAITING
    return is_due or is_child or step.status is StepStatus.RUNNING


def _is_working(s: Snapshot) -> bool:
    """An attempt of it runs, or a run that it started and waits for is alive."""
    children = any(x.kind is StepKind.CHILD and x.status is StepStatus.WAITING for x in s.steps.values())
    return children or is_running(s)


def _is_active(s: Snapshot, now: datetime) -> bool:
    return _is_wanting(s, now) or _is_working(s)


# -- what comes from the lanes ----------------------------------------------------------------------------------------
def admitted(s: Snapshot, asks: int, now: datetime, resend_s: float, *, is_free: bool = False) -> Snapshot:
    """Let the run in, which has all its slots: what was kept back begins. The same snapshot where it has moved on.

    Args:
        asks: which asking was granted.
        is_free: there is nothing left that it would need a slot of.
    """
    run = s.run
    if run.admission != Admission.ASKED or run.asks != asks or not run.status.is_forward:
        return s
    s.need(Extent.LIVE)
    s = s.with_run(admission=Admission.NONE if is_free else Admission.HELD)
    kept = [x for x in s.steps.values() if _is_due(x, now) and not x.sends]
    s = s.with_steps({x.key: wakeup.scheduled(x, now, resend_s) for x in kept})
    return wakeup.wake(s, now, resend_s) if run.sends else s


def enlist(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Have a run queue that a cap or a pause has come over; what runs of it ends first. Undos go on."""
    run = s.run
    if not run.status.is_forward or run.admission in (Admission.OUT, Admission.LEAVING):
        return s
    s.need(Extent.LIVE)
    if run.admission == Admission.ASKED:
        return ask(s, now, resend_s)
    return follow(s.with_run(admission=Admission.LEAVING), now, resend_s)


def first(run: RunRecord, now: datetime, resend_s: float, *, is_capped: bool) -> RunRecord:
    """A new run as it is inserted: with a lane of its own, or under a cap, it asks before it begins.

    Args:
        is_capped: its saga, or all sagas, have a cap or are paused.
    """
    if not is_capped and (run.lane is None or run.parent_id is not None):
        return run
    s = Snapshot(replace(run, admission=Admission.OUT))
    return follow(s, now, resend_s).run
