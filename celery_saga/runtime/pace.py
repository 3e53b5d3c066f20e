"""When a sweeper looks at the store: at intervals, and just when a timer that it has seen coming is due."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from celery_saga.core.ports import Fleet

__all__ = ["Look", "Pace"]

_FLEET_TICKS_PER_S = 2.0
_TIMERS_AN_INTERVAL = 10
_AGAIN_S = 1.0
_LATE_S = 0.002  # the database's clock tells whether a timer is due: not to be asked just before


class Look(Enum):
    """What is to be looked at now."""

    NOTHING = "nothing"
    TIMERS = "timers"
    ALL = "all"


class Pace:
    """Of one sweeper, which asks at each of its turns.

    The sweepers of a fleet share about two looks a second between them. Each sees timers coming for one
    `saga_sweep_interval` after its look, so two of them do at any time; its looks for timers are a tenth of that apart.

    Args:
        now_s: measures durations.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._own_s = 1.0
        self._all_at_s = self._timer_at_s = self._sees_until_s = -math.inf
        self.sweepers = 1
        """How many of the fleet are alive."""
        self._before, self._ahead_s = 0, 0.0

    def join(self, fleet: Fleet) -> None:
        """The sweepers that are alive now. They look in turn, by the database's clock, also after all were frozen."""
        self.sweepers = max(1, fleet.alive)
        self._before = min(fleet.before, self.sweepers - 1)
        self._ahead_s = fleet.now.timestamp() - self._now_s()

    def _wait_s(self, now_s: float) -> float:
        interval_s = self.interval_s
        if interval_s <= self._own_s:
            return interval_s
        turn_s = interval_s * self._before / self.sweepers
        wait_s = (turn_s - now_s - self._ahead_s) % interval_s
        return wait_s if wait_s > self._own_s / _TIMERS_AN_INTERVAL else wait_s + interval_s

    def begin(self, own_s: float) -> Look:
        """What to look at in the turn that begins; said once, however the turn ends.

        Args:
            own_s: `saga_sweep_interval`.
        """
        now_s, self._own_s = self._now_s(), own_s
        if now_s >= self._all_at_s:
            self._all_at_s, self._sees_until_s = now_s + self._wait_s(now_s), now_s + own_s
            self._timer_at_s = math.inf
            return Look.ALL
        if now_s >= self._timer_at_s:
            self._timer_at_s = math.inf
            return Look.TIMERS
        return Look.NOTHING

    @property
    def interval_s(self) -> float:
        """Between two looks at all."""
        return max(self._own_s, self.sweepers / _FLEET_TICKS_PER_S) if self.sweepers > 1 else self._own_s

    @property
    def sees_s(self) -> float:
        """How far to look for timers that are coming; 0: no further."""
        return max(0.0, self._sees_until_s - self._now_s())

    def expect(self, coming_s: float | None) -> None:
        """A timer comes due in so many seconds; None: none."""
        if coming_s is not None:
            wait_s = max(coming_s + _LATE_S, self._own_s / _TIMERS_AN_INTERVAL)
            self._timer_at_s = self._now_s() + wait_s

    def hurry(self) -> None:
        """More is there than was done."""
        self._all_at_s = self._now_s()

    def failed(self) -> None:
        """What was to be looked at was not: again soon, however long the interval is."""
        soon_s = max(_AGAIN_S, self.sweepers / _FLEET_TICKS_PER_S)
        self._all_at_s = min(self._all_at_s, self._now_s() + soon_s)

    @property
    def next_s(self) -> float:
        """Until the next look, in seconds."""
        return min(self._all_at_s, self._timer_at_s) - self._now_s()
