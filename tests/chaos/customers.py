"""Who starts the runs of a plan, signals and cancels them, and asks again where the database is away."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from celery_saga.errors import RunNotFound, SignalDuplicate, SignalExpired, StoreUnavailable
from tests.chaos.model import told
from tests.chaos.plan import Arrival, Plan
from tests.chaos.sagas import SAGAS
from tests.chaos.trees import Wait, to_plain

AGAIN_S = 0.3


class Customers:
    """One thread, which does what is due, the earliest first.

    Args:
        live: how many runs live now; above `most` nobody comes in.
    """

    def __init__(self, plan: Plan, live: Callable[[], int], most: int) -> None:
        self._plan, self._live, self._most = plan, live, most
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._over = threading.Event()
        self._begun_s = time.monotonic()
        self.started: dict[str, Arrival] = {}
        self.cancelled: set[str] = set()
        self.errors: list[str] = []
        self.refused = 0
        self._looked_s, self._were_live = 0.0, 0
        self._coming = iter(plan.arrivals)
        self._next()

    def run(self) -> None:
        """Return when all has been done that the plan says."""
        while self._due and not self._over.is_set():
            at_s, _, act = self._due[0]
            if self._over.wait(max(0.0, self._begun_s + at_s - time.monotonic())):
                return
            heapq.heappop(self._due)
            try:
                act()
            except (StoreUnavailable, _Later):
                self.refused += 1
                self._at(self._now_s() + AGAIN_S, act)
            except Exception as error:  # noqa: BLE001  # told in the report, and fails it
                self.errors.append(f"{type(error).__name__}: {error}")

    def _now_s(self) -> float:
        return time.monotonic() - self._begun_s

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), act))

    def _next(self) -> None:
        """Nobody overtakes: who stands at the door keeps the others waiting behind."""
        arrival = next(self._coming, None)
        if arrival is not None:
            self._at(max(arrival.at_s, self._now_s()), lambda: self._start(arrival))

    def _start(self, arrival: Arrival) -> None:
        if self._now_s() - self._looked_s > 1.0:
            self._were_live, self._looked_s = self._live(), self._now_s()
        if self._were_live >= self._most:
            if self._now_s() < self._plan.seconds:
                raise _Later
            return  # the doors close, and who could not come in goes home
        handle = SAGAS[arrival.dispatch].start(arrival.order, to_plain(arrival.tree))
        self.started[arrival.order] = arrival
        self._were_live += 1
        for name, after_s in arrival.signals:
            self._at(self._now_s() + after_s, lambda each=name: self._signal(handle, arrival.order, each))  # type: ignore[misc]
        if arrival.cancel_s is not None:
            self._at(self._now_s() + arrival.cancel_s, lambda: self._cancel(handle, arrival.order))
        self._next()

    def _signal(self, handle: Any, order: str, name: str) -> None:
        with suppress(SignalDuplicate, SignalExpired, RunNotFound):
            handle.signal(name, told(order, Wait(name, None)), id=f"once {name}")

    def _cancel(self, handle: Any, order: str) -> None:
        if handle.cancel(reason="changed my mind", by="a customer")["cancelled"]:
            self.cancelled.add(order)


class _Later(Exception):
    """Too many are inside."""
