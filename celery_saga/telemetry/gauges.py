"""Gauges that are asked for: one process of the fleet reads them from the tables, once for each collection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from celery_saga.store.figures import Figures
from celery_saga.telemetry import names

__all__ = ["Gauges", "register"]

_SAME_S = 0.25  # the gauges of one collection are asked one after the other
_FIRST_LEASE_S, _SHORTEST_LEASE_S, _INTERVALS = 150.0, 5.0, 2.5


class Gauges:
    """The figures of this process: empty while another one reads them.

    The lease lasts two and a half of this process's own intervals: so long there is nothing once it has died.

    Args:
        read: reads the figures as the only one for so many seconds from now; None: another process does.
        monotonic_s: measures durations.
    """

    def __init__(
        self, read: Callable[[float], Figures | None], *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._read, self._monotonic_s = read, monotonic_s
        self._lock = threading.Lock()
        self._figures: Figures | None = None
        self._asked_at_s: float | None = None

    def figures(self) -> Figures | None:
        """Those of this collection."""
        with self._lock:
            now_s = self._monotonic_s()
            if self._asked_at_s is not None and now_s - self._asked_at_s < _SAME_S:
                return self._figures
            interval_s = None if self._asked_at_s is None else now_s - self._asked_at_s
            lease_s = _FIRST_LEASE_S if interval_s is None else max(_SHORTEST_LEASE_S, interval_s * _INTERVALS)
            self._figures = self._read(lease_s)
            self._asked_at_s = self._monotonic_s()
            return self._figures


def register(gauges: Callable[[], Gauges]) -> None:
    """Make the instruments; they are asked whenever the project's readers collect.

    Args:
        gauges: of the process that asks, which may have been forked since.
    """
    meter = metrics.get_meter(names.SCOPE)

    def observed(make: Callable[[Figures], Iterable[Observation]]) -> Any:
        def callback(_: CallbackOptions) -> Iterable[Observation]:
            found = gauges().figures()
            return [] if found is None else list(make(found))

        return [callback]

    def add(name: str, unit: str, what: str, make: Callable[[Figures], Iterable[Observation]]) -> None:
        meter.create_observable_gauge(name, observed(make), unit, what)

    add(names.RUNS, "{run}", "Live runs, and those whose undos have failed, by saga and status.", _runs)
    add(names.OLDEST, "s", "Since the oldest wake-up was due.", lambda x: [Observation(x.overdue_s)])
    add(names.DESK, "{run}", "Runs that need a person.", lambda x: [Observation(x.desk)])
    add(names.OUTBOX, "{row}", "Announcements that wait.", lambda x: _by(names.PURPOSE, x.outbox))
    add(names.WAITING, "{run}", "Runs that queue for a lane.", lambda x: _by(names.LANE, x.lanes))


def _runs(found: Figures) -> Iterable[Observation]:
    return [Observation(n, {names.SAGA: saga, names.RUN_STATUS: status}) for (saga, status), n in found.runs.items()]


def _by(name: str, numbers: dict[str, int]) -> Iterable[Observation]:
    return [Observation(number, {name: value}) for value, number in numbers.items()]
