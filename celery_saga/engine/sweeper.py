"""Wakes what is due: ends leases, sends first wake-ups that have come due and repeats those that seem lost."""

from __future__ import annotations

import logging
from dataclasses import replace

from celery_saga.core.admission import may_begin
from celery_saga.core.children import is_of_child
from celery_saga.core.due import Due, DueKind
from celery_saga.core.focus import Focus
from celery_saga.core.status import StepStatus
from celery_saga.core.unreadable import unread
from celery_saga.engine import admission, schedules, worker
from celery_saga.engine.dispatch import wake_up
from celery_saga.engine.ports import Message, RunMessage
from celery_saga.engine.seldom import Seldom
from celery_saga.engine.world import World
from celery_saga.errors import DefinitionError, InvalidPayload, PayloadUnreadable, StoreUnavailable

logger = logging.getLogger("celery_saga.sweeper")
seldom = Seldom(logger)

_BATCH = 200
_OUTAGE_TICKS, _LATE_S = 5, 1.0
_GROWTH, _GROWTH_WHEN_EMPTY = 2.0, 1.5
_LOOKS_OF_AN_HOUR = 5  # at 30 s, 1, 2, 4 and 8 min; then one each quarter of an hour


class Sweeper:
    """One loop's memory. Not shared between threads.

    A tick that comes more than five intervals, or half a lease, after the one before means that this process, or the
    database, was out: holders could not renew, so leases get one more `saga_lease` before any is ended. No tick that
    is less than a second late means that, however short leases are.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._last_tick_s: float | None = None
        self._grace_until_s = 0.0

    def tick(self, interval_s: float | None = None) -> int:
        """Handle what is due now; how many rows that were. One statement when nothing is due.

        Args:
            interval_s: how often it is called at present, in seconds; None: as `saga_sweep_interval` says.
        Raises:
            StoreUnavailable: the database is out of reach; what was not handled stays due.
        """
        world = self._world
        hold_s = world.limits.lease_s
        due = world.store.pick_due(limit=_BATCH, hold_s=hold_s)
        self._mind_outage(interval_s or world.limits.sweep_interval_s)
        sendable = [(each, message) for each in map(self._read, due) if each and (message := self._handled(each))]
        if sendable:
            sent = world.publisher.publish([message for _, message in sendable])
            for each, _ in sendable[sent:]:
                if _sends(each) > 1:
                    # The wait doubles for what may be on its way; the broker's return is to be noticed soon.
                    self._put_off(each, world.limits.lease_s)
        return len(due)

    def _mind_outage(self, interval_s: float) -> None:
        now_s = self._world.monotonic_s()
        silence_s = 0.0 if self._last_tick_s is None else now_s - self._last_tick_s
        lease_s = self._world.limits.lease_s
        if silence_s > max(interval_s + _LATE_S, min(_OUTAGE_TICKS * interval_s, lease_s / 2)):
            self._grace_until_s = now_s + lease_s
        self._last_tick_s = now_s

    def _read(self, due: Due) -> Due | None:
        """The same with what is stored elsewhere; None: not now, or its run is parked as something cannot be read."""
        if unread(x for x in (due.run, due.step) if x is not None) is None:
            return due
        try:
            loaded = self._world.store.load(due.run_id, focus=None if due.step is None else Focus(keys=(due.step.key,)))
        except StoreUnavailable as error:
            seldom.warning("run %s is due, but cannot be read now: %s", due.run_id, error)
            return None
        if loaded is None:
            return None
        if loaded.unreadable is not None:
            self._world.refused(due.run_id, loaded.unreadable)
            return None
        step = None if due.step is None else loaded.snapshot.steps.get(due.step.key)
        if due.step is None or step is None:
            return None if due.step is not None else replace(due, run=replace(loaded.snapshot.run, sends=_sends(due)))
        return replace(due, step=replace(step, sends=due.step.sends, wake_at=due.step.wake_at), run=loaded.snapshot.run)

    def _handled(self, due: Due) -> Message | None:
        try:
            return self._handle(due)
        except PayloadUnreadable:  # its run is parked
            return None
        except (InvalidPayload, DefinitionError) as error:
            # A text that saga_codec does not seal, say: what else was picked with it must not wait for it.
            logger.error("run %s is due, but nothing can be written of it; it is tried again: %s", due.run_id, error)
            return None

    def _handle(self, due: Due) -> Message | None:
        if due.kind is DueKind.LANE:
            self._look_at_lane(due)
            return None
        if due.kind is DueKind.SIGNAL:
            self._world.change(due.run_id, self._world.look)
            return None
        if due.schedule is not None:
            schedules.fire(self._world, due.schedule)
            return None
        if due.run is None:
            return None
        if due.kind is DueKind.RUN:
            return self._again(RunMessage(due.run), due)
        assert due.step is not None
        if due.step.status is StepStatus.RUNNING:
            self._end_lease(due)
            return None
        if not (is_of_child(due.step) or may_begin(due.run, due.step)):
            # The end of a back-off, mostly: the run asks to be let in again, and keeps the step back until then.
            self._world.change(due.run_id, self._world.look, settled=True)
            return None
        if due.step.status is StepStatus.WAITING and not is_of_child(due.step):
            return self._again(RunMessage(due.run), due)
        return self._again(wake_up(due.run, due.step), due)

    def _look_at_lane(self, due: Due) -> None:
        if due.run_id:
            admission.pursue(self._world, due.run_id)
        elif due.is_enlisting:
            admission.enlist(self._world, due.lane)
        else:
            admission.admit(self._world, [due.lane])

    def _end_lease(self, due: Due) -> None:
        if due.step is not None and self._world.monotonic_s() >= self._grace_until_s:
            worker.end_attempt(self._world, due.run_id, due.step.key, due.step.claim_token, ended=False)

    def _again(self, message: Message, due: Due) -> Message | None:
        """A first wake-up is sent; a repeated one only when its queue is empty, or has been left by later messages.

        And each time after a longer wait: sending again every few seconds into a backlog would multiply it.
        """
        sends = _sends(due)
        if sends <= 1:
            return message
        # The last wait was as long as after an empty queue, or longer.
        depth = self._world.publisher.depth(message, sent_s=self._wait_s(sends - 1, _GROWTH_WHEN_EMPTY))
        # Nothing waits: a worker has thrown it away, or holds it. Where every other worker throws it away, a wait that
        # doubled would on average never end.
        growth = _GROWTH_WHEN_EMPTY if depth == 0 else _GROWTH
        self._put_off(due, self._wait_s(sends, growth))
        return None if depth > 0 and not _is_long_overdue(sends) else message

    def _wait_s(self, sends: int, growth: float) -> float:
        limits = self._world.limits
        return min(limits.lease_s * growth ** min(sends - 1, 20), limits.max_resend_s)

    def _put_off(self, due: Due, delay_s: float) -> None:
        if due.kind is DueKind.RUN and due.run is not None:
            self._world.store.put_off_run(due.run, delay_s=delay_s)
        elif due.step is not None:
            self._world.store.put_off(due.step, delay_s=delay_s)


def _sends(due: Due) -> int:
    """How often its wake-up has been sent, this time included."""
    if due.kind is DueKind.RUN:
        return 0 if due.run is None else due.run.sends
    return 0 if due.step is None else due.step.sends


def _is_long_overdue(sends: int) -> bool:
    """Its wake-up may be lost although its queue is never empty: told after about 1, 2, 4, 8 hours, then ever rarer."""
    late = sends - _LOOKS_OF_AN_HOUR
    return late >= 4 and late & (late - 1) == 0
