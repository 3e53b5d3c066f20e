"""Keeps the leases of the attempts that run in this process, from one thread (a greenlet under gevent)."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery_saga.engine.seldom import Seldom
from celery_saga.errors import StoreUnavailable
from celery_saga.runtime.attempt import lease_of
from celery_saga.runtime.daemon import start_daemon

if TYPE_CHECKING:
    from celery_saga.engine.engine import Engine
    from celery_saga.runtime.attempt import Attempt

__all__ = ["Renewals"]

logger = logging.getLogger("celery_saga.renewal")
seldom = Seldom(logger)

_IDLE_S = 60.0


@dataclass(slots=True)
class _Held:
    """An attempt whose lease is kept. Seconds of the monotonic clock."""

    attempt: Attempt
    next_s: float
    cancelled_s: float | None = None


class Renewals:
    """Renews each lease from a third of it on, until the attempt ends or its time-out is over.

    After the run's forward part has ended, or nobody waits for the step any more because the join around it is over, it
    has one more lease to notice; then its lease is left to end.

    Args:
        engine: over a store of its own, so that a busy pool of connections cannot hold a renewal up.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lease_s = engine.limits.lease_s
        self._changed = threading.Condition()
        self._held: dict[int, _Held] = {}
        self._pid = 0
        self._asleep = False  # the thread waits without a time-out

    def add(self, attempt: Attempt) -> None:
        """Keep the lease of an attempt that was claimed just now."""
        with self._changed:
            self._held[id(attempt)] = _Held(attempt, time.monotonic() + self._lease_s / 3)
            if self._pid != os.getpid():
                self._pid = os.getpid()
                start_daemon(self._loop, "saga-renewal")
            elif self._asleep:
                # Only then: waking a thread for each short step would cost more than its claim.
                self._asleep = False
                self._changed.notify()

    def remove(self, attempt: Attempt) -> None:
        """The attempt has ended."""
        with self._changed:
            self._held.pop(id(attempt), None)

    def _loop(self) -> None:
        while True:
            try:
                self._renew(self._wait())
            except StoreUnavailable as error:
                seldom.warning("leases cannot be renewed, and it is tried again: %s", error)
                time.sleep(min(1.0, self._lease_s / 10))
            except Exception:
                # Whatever it was: the other leases must be kept.
                seldom.exception("renewing leases failed; it is tried again")
                time.sleep(min(1.0, self._lease_s / 10))

    def _wait(self) -> list[_Held]:
        """The attempts that are due, once there is one.

        It looks every sixth of a lease while there was something to do lately, so that nobody need wake it.
        """
        used_s = time.monotonic()
        with self._changed:
            while True:
                now_s = time.monotonic()
                due = [held for held in self._held.values() if held.next_s <= now_s]
                if due:
                    return due
                if self._held:
                    used_s = now_s
                self._asleep = now_s - used_s > _IDLE_S
                self._changed.wait(None if self._asleep else self._lease_s / 6)
                self._asleep = False

    def _renew(self, due: list[_Held]) -> None:
        for held in due:
            attempt = held.attempt
            timeout_s = attempt.timeout_s
            over = timeout_s is not None and attempt.elapsed_s >= timeout_s
            ignored = held.cancelled_s is not None and time.monotonic() - held.cancelled_s >= self._lease_s
            if over or ignored:
                self.remove(attempt)
                continue
            # Set first: after an error the next try is due as soon as after a success.
            held.next_s = time.monotonic() + self._lease_s / 3
            run = self._engine.renew(attempt.claimed, left_s=lease_of(timeout_s, attempt.elapsed_s))
            if run is None:
                attempt.cancelled = True
                self.remove(attempt)
            elif attempt.is_forward and (run.outcome is not None or self._engine.is_abandoned(attempt.claimed)):
                attempt.cancelled = True
                held.cancelled_s = held.cancelled_s or time.monotonic()
