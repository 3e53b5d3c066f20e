"""Inline steps: consecutive steps of a run in one delivery, its body alive between them, one durable commit a step.

Theory of operation. The pass over the body asks here instead of suspending at a new step. The step's row is inserted
already claimed, in the one transaction that also checkpoints the step before: so step n is executed, its outcome kept,
and the body goes on until it asks for step n + 1; only then is n written. A process that dies in between has lost one
outcome; that attempt ends unseen like any other, and its step is executed again under the same idempotency key.
Nothing here runs inside a transaction but the transitions. If the run has moved meanwhile (a cancel, a signal), the
outcome is checkpointed with a wake-up, nothing is ordered, and the run is decided anew.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery_saga.core import attempts, wakeup
from celery_saga.core import decision as decisions
from celery_saga.core.admission import is_any_active
from celery_saga.core.advance import settle
from celery_saga.core.attempts import Fenced, Outcome, Succeeded
from celery_saga.core.decision import Decision
from celery_saga.core.focus import Extent, Focus
from celery_saga.core.log_fields import fields_of
from celery_saga.core.placing import Order
from celery_saga.core.records import StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.replay import Settled
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus, next_step_status
from celery_saga.core.waits import tick
from celery_saga.engine.coordinator import Moved, Reading
from celery_saga.engine.ports import Change, Claimed, Inline, Transition
from celery_saga.engine.worker import land
from celery_saga.engine.world import World

logger = logging.getLogger("celery_saga.step")

_FEW = 30
"""Steps of a run that are all kept at hand: then its end needs no look at the others."""
_WORKING = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING)


def advance(world: World, inline: Inline, reading: Reading) -> bool:
    """Decide a run, executing what may be executed inline, and write what follows.

    Returns:
        False: this process does not know the run's saga and version; nothing was done.
    Raises:
        Moved: the run is no longer as it was read; nothing was executed or written.
        StoreUnavailable: the database is out of reach; a claim that it may have written ends by itself.
    """
    going = _Going(world, inline, reading)
    decided = world.definitions.decide(reading.snapshot, reading.now, going)
    if going.accident is not None:
        raise going.accident
    if decided is None:
        return False
    going.end(decided)
    return True


@dataclass(frozen=True, slots=True)
class _Held:
    """An attempt that has ended and is not checked in yet."""

    claimed: Claimed
    outcome: Outcome
    claimed_s: float  # when that was, on the monotonic clock

    def at(self, world: World) -> datetime:
        """About the time that the database has now."""
        return self.claimed.now + timedelta(seconds=world.monotonic_s() - self.claimed_s)


class _Going:
    """One live pass. Called by the replay, inside the body: whatever goes wrong here must not be seen there."""

    def __init__(self, world: World, inline: Inline, reading: Reading) -> None:
        self.accident: BaseException | None = None
        self._world = world
        self._inline = inline
        self._reading = reading
        self._run = reading.snapshot.run
        self._version = self._run.state_version
        self._begun_s = world.monotonic_s()
        self._basis: Snapshot | None = None
        self._held: _Held | None = None
        self._has_left = False
        self._last: Transition | None = None

    def __call__(self, orders: tuple[Order, ...]) -> Settled | None:
        try:
            return self._step(orders)
        except BaseException as accident:  # noqa: BLE001 - raised again by `advance`, outside the user's body
            self.accident = accident
            return None

    def end(self, decided: Decision) -> None:
        """Check in what is held, and write the decision with it if nothing has moved."""
        if not self._has_left:
            self._write(decided)
        # Not before: from inside the body nothing can be sent. A transition that claimed a step sends nothing.
        self._world.follow(self._last)

    def _step(self, orders: tuple[Order, ...]) -> Settled | None:
        if not self._world.is_inline(self._run, orders[-1]):
            return None
        if self._held is not None and self._is_over():
            self._leave()
            return None
        claimed = self._claim(orders)
        if claimed is None:
            return None
        begun_s = self._world.monotonic_s()
        self._held = _Held(claimed, self._inline.execute(claimed), begun_s)
        now = self._held.at(self._world)
        record = self._ended(self._held, now)
        if not record.status.is_end:  # to be tried again, by a message of its own
            self._leave()
            return None
        return Settled(record, now)

    def _is_over(self) -> bool:
        elapsed_s = self._world.monotonic_s() - self._begun_s
        return elapsed_s >= self._world.limits.inline_slice_s or self._inline.is_over(elapsed_s)

    def _ended(self, held: _Held, now: datetime) -> StepRecord:
        step, run, outcome = held.claimed.step, held.claimed.snapshot.run, held.outcome
        if isinstance(outcome, Succeeded) and outcome.progress_text is None:
            return attempts.succeeded(step, outcome, now, run.step_seq + 1)
        alone = Snapshot(run, {step.key: step})
        return attempts.check_in(alone, step.key, step.claim_token or "", outcome, now, self._world.resend_s).steps[
            step.key
        ]

    # -- transactions ------------------------------------------------------------------------------------------
    def _claim(self, orders: tuple[Order, ...]) -> Claimed | None:
        """Check in what is held and insert the last order already claimed; None: nothing is to be executed here."""
        key, token = orders[-1].key, self._world.token()

        def change(s: Snapshot, now: datetime) -> Snapshot:
            mine = s.steps.get(key)
            if mine is not None and mine.claim_token == token:
                return s  # it has landed, and the answer was lost
            new, has_moved = self._next(s, now, Decision(orders))
            step = new.steps.get(key)
            is_free = step is not None and step.status is StepStatus.SCHEDULED  # not so where a cancel had waited
            return new.with_step(self._taken(step, token, now)) if is_free and step and not has_moved else new

        transition = self._transact(change, key)
        step = None if transition is None else transition.new.steps.get(key)
        if transition is None or step is None or step.claim_token != token:
            self._has_left = True
            return None
        self._held = None
        self._version = transition.new.run.state_version
        self._basis = _all_of(transition.new) if len(transition.new.steps) <= _FEW else _around(transition.new, step)
        return Claimed(step, transition.new, transition.now)

    def _taken(self, step: StepRecord, token: str, now: datetime) -> StepRecord:
        """A step that was ordered just now, as its first attempt claims it."""
        until = wakeup.after(now, self._world.limits.lease_s)
        status = next_step_status(step.run_id, step.key, step.status, StepEvent.CLAIMED)
        return replace(
            step,
            status=status,
            attempt=step.attempt + 1,
            claim_token=token,
            owner=self._inline.owner,
            lease_until=until,
            wake_at=until,
            started_at=now,
            sends=0,
        )

    def _leave(self) -> None:
        """Check in what is held, and let the run be decided anew by whoever gets its wake-up."""
        self._write(None)
        self._has_left = True

    def _write(self, decided: Decision | None) -> None:
        def change(s: Snapshot, now: datetime) -> Snapshot:
            new, _ = self._next(s, now, decided)
            return s if self._held is None and new == s else new

        self._transact(change, ends=decided is not None)

    def _next(self, s: Snapshot, now: datetime, decided: Decision | None) -> tuple[Snapshot, bool]:
        """The run with what is held checked in and, if it has not moved (False), with the decision written.

        Raises:
            Moved: it has moved, and nothing is held.
            Fenced: the lease of what is held has ended.
        """
        world, held = self._world, self._held
        ticked = tick(s, now, world.resend_s)
        has_moved = ticked is not s or s.run.state_version != self._version
        if held is None:
            if has_moved:
                raise Moved
            new = s
        else:
            step = held.claimed.step
            new = attempts.check_in(ticked, step.key, step.claim_token or "", held.outcome, now, world.resend_s)
            if new is ticked:
                return s, True  # it has landed, and the answer was lost
            has_moved = has_moved or not new.steps[step.key].status.is_end
        if decided is not None and not has_moved:
            new = decisions.apply(new, decided, now, world.resend_s, jitter=world.draw(), at_once=world.limits.at_once)
        return settle(new, now, world.resend_s), has_moved

    def _transact(self, change: Change, *new: str, ends: bool = False) -> Transition | None:
        """The transaction. With an outcome held it is tried until it lands or is refused.

        Of all that the run has done only what is held is needed, so a step costs the same after thousands; and while
        nothing has moved, not even that is loaded.

        Args:
            new: keys of steps that it may add.
            ends: it may end the forward part, which needs more.
        """
        held = self._held
        if held is None:
            read = self._reading
            at = read.about_now(self._world)
            self._last = self._world.transact(self._run.id, change, basis=read.snapshot, at=at, is_blind=False)
            return self._last
        step = held.claimed.step
        focus = None if ends else Focus(keys=(step.key, *new))
        how: dict[str, Any] = {"basis": self._basis, "at": held.at(self._world), "is_blind": not ends}
        try:
            self._last = land(self._world, step, change, focus=focus, **how)
        except Fenced:
            self._last = None
            # Whoever ended the lease has warned.
            logger.info(
                "step %r of run %s, attempt %d: its lease had ended, so its outcome does not count",
                *(step.key, step.run_id, step.attempt),
                extra=fields_of(self._run, step.key, step.attempt),
            )
        return self._last


def _all_of(s: Snapshot) -> Snapshot:
    """A run as a load would give it now, after the transition that led here."""
    return Snapshot(s.run, s.steps, s.inbox, extent=s.extent)


def _around(s: Snapshot, step: StepRecord) -> Snapshot:
    """A run with this one step, as a focus on it would load it."""
    others = any(x.status in _WORKING for x in s.steps.values() if x.key != step.key)
    busy = others or s.is_busy_elsewhere
    active = s.is_active_elsewhere or is_any_active(x for x in s.steps.values() if x.key != step.key)
    return Snapshot(
        s.run, {step.key: step}, s.inbox, extent=Extent.PART, is_busy_elsewhere=busy, is_active_elsewhere=active
    )
