"""Wake-ups: nothing live is without one; what leaves a run to be decided sets it, a committed decision resets it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from celery_saga.core.records import StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot

_OFFER_S, _OFFER_GROWTH, _OFFER_MAX_S = 1.0, 1.5, 5.0
_OFFERS_OF_A_DEPLOY = 30  # in about two minutes; who is still handed back then waits longer and longer, to a minute
_LATE_OFFER_MAX_S = 60.0


def offered_again_s(before: int, draw: float) -> float:
    """How long what a worker of another deploy handed back rests until it is offered again: soon, then less often.

    While a deploy lasts every second offer, say, meets an older worker: a wait that doubled would on average never end.
    The wait is drawn, since a broker deals out in turns: offers at equal distances can meet the same worker each time.

    Args:
        before: how often in a row it has been handed back before this time.
        draw: a random number in [0, 1).
    """
    late = max(0, before - _OFFERS_OF_A_DEPLOY)
    soon_s = min(_OFFER_S * _OFFER_GROWTH ** min(before, 20), _OFFER_MAX_S)
    return float(min(soon_s * _OFFER_GROWTH ** min(late, 20), _LATE_OFFER_MAX_S) * (0.5 + draw))


def after(now: datetime, delay_s: float) -> datetime:
    """The instant `delay_s` seconds from now; the last representable instant where that is beyond the calendar."""
    try:
        return now + timedelta(seconds=delay_s)
    except OverflowError:
        return datetime.max.replace(tzinfo=now.tzinfo)


def wake(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """The run is to be decided: a message goes out after the commit, and again by the sweeper if that gets lost.

    Before `not_before_at` nothing is sent; the sweeper sends when it has come. A parked or ended run is left alone.
    """
    run = s.run
    if not run.status.is_forward:
        return s
    if run.not_before_at is not None and run.not_before_at > now:
        wake_at = run.not_before_at if run.deadline_at is None else min(run.not_before_at, run.deadline_at)
        return replace(s.with_run(wake_at=wake_at, sends=0), woken=False)
    return replace(s, run=replace(run, wake_at=after(now, resend_s), sends=1, sent_at=now), woken=True)


def asleep(s: Snapshot, **changes: Any) -> Snapshot:
    """The run was decided: until something happens only its deadline wakes it; `changes` go along."""
    run = replace(s.run, wake_at=s.run.deadline_at, sends=0, not_before_at=None, **changes)
    return replace(s, run=run, woken=False)


def scheduled(step: StepRecord, now: datetime, resend_s: float, delay_s: float = 0.0) -> StepRecord:
    """The wake-up of a step now `scheduled`: sent after the commit, or by the sweeper once the delay is over."""
    if delay_s > 0:
        due_at = after(now, delay_s)
        return replace(step, due_at=due_at, wake_at=due_at, sends=0, lease_until=None)
    return replace(step, due_at=None, wake_at=after(now, resend_s), sends=1, sent_at=now, lease_until=None)
