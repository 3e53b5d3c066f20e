"""Brings what the outbox holds to where it belongs: one relay of each purpose in the fleet at a time."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from celery_saga.core.lifecycle import Announcement, Purpose
from celery_saga.engine.seldom import Seldom
from celery_saga.store import SqlStore

__all__ = ["Deliverer", "Relay"]

logger = logging.getLogger("celery_saga.outbox")
seldom = Seldom(logger)

_BATCH = 100
_LEASE_S = 15.0  # longer than a batch can take: then another one takes over from a relay that has died
_TURN_S = 2.0  # a sweeper has other things to do as well
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class Deliverer(Protocol):
    """Delivers announcements. Bounded in time, and never raises because of whoever it delivers to."""

    @property
    def trouble(self) -> str:
        """Why the last batch was not delivered as a whole; empty where it was."""

    def deliver(self, batch: Sequence[Announcement]) -> int:
        """Deliver in order; how many, counted from the first, need not be kept any longer."""

    def close(self) -> None:
        """Give up connections and threads."""


class Relay:
    """Empties the outbox of one purpose. Not shared between threads.

    A row is deleted once it was delivered. A relay that dies in between, or is slower than its lease, lets rows be
    delivered again by the next one: each at least once, and the first time in the order of each run.

    Args:
        store: whose outbox it is.
        purpose: of the rows.
        deliverer: where they go.
        monotonic_s: measures durations.
    """

    def __init__(
        self,
        store: SqlStore,
        purpose: Purpose,
        deliverer: Deliverer,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox, self._purpose, self._deliverer = store.outbox, purpose, deliverer
        self._monotonic_s = monotonic_s
        self._token = uuid.uuid4().hex
        self._pause_s = 0.0
        self._not_before_s = 0.0

    def drain(self) -> int:
        """Deliver what is there, for at most 2 s; how many rows. One statement where there is nothing.

        Raises:
            StoreUnavailable: the database is out of reach; what was delivered and not deleted comes again.
        """
        start_s = self._monotonic_s()
        if start_s < self._not_before_s or not self._outbox.is_waiting(self._purpose):
            return 0
        count = 0
        while self._outbox.take(self._purpose, token=self._token, lease_s=_LEASE_S):
            batch = self._outbox.next(self._purpose, limit=_BATCH)
            sent = self._deliverer.deliver(batch) if batch else 0
            self._outbox.delete([each.id for each in batch[:sent]])
            count += sent
            if sent < len(batch):
                self._wait(len(batch) - sent)
            else:
                self._pause_s = 0.0
            if sent < len(batch) or len(batch) < _BATCH or self._monotonic_s() - start_s > _TURN_S:
                self._outbox.leave(self._purpose, token=self._token)
                break
        return count

    def close(self) -> None:
        """Give up the deliverer's connections."""
        self._deliverer.close()

    def _wait(self, left: int) -> None:
        """Nobody is served by asking a broker that is away again and again; what is in the outbox can wait."""
        self._pause_s = min(max(self._pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._not_before_s = self._monotonic_s() + self._pause_s
        why = self._deliverer.trouble or "no answer in time"
        seldom.warning("%d or more announcements (%s) wait in the outbox: %s", left, self._purpose.value, why)
