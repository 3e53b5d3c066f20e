"""A handle of a run in a laboratory: waiting moves the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any, Generic, TypeVar

from celery_saga.client.handle import RunHandle
from celery_saga.core.records import HistoryRecord
from celery_saga.core.retry import seconds
from celery_saga.errors import WaitTimeout

__all__ = ["LabHandle"]

R = TypeVar("R")

Until = Callable[[Callable[[], bool], float | None], None]
"""Works and moves the clock until the condition holds, so many seconds are over, or nothing is ever due."""


class LabHandle(RunHandle[R], Generic[R]):
    """A `RunHandle` whose `wait` takes no real time.

    Args:
        until: does the waiting.
        options: as of `RunHandle`.
    """

    def __init__(self, until: Until, *options: Any, **more: Any) -> None:
        super().__init__(*options, **more)
        self._until = until

    def wait(self, timeout: float | timedelta | None = None) -> R:
        """Work and move the clock to whatever is due next, until the run has ended; then as `RunHandle.wait`.

        Args:
            timeout: virtual seconds or timedelta, at least 0; None: as long as something is due at some time.
        Raises:
            WaitTimeout: it has not ended by then, or nothing will ever wake it.
            RunFailed, RunCancelled: as of `RunHandle.wait`.
        """
        timeout_s = None if timeout is None else seconds(timeout, "timeout")
        self._until(lambda: self._now().run.status.is_end, timeout_s)
        seen = self._now()
        if seen.run.status.is_end:
            return self._outcome()
        if timeout_s is None:
            names = ", ".join(each.name for each in self.waiting_on)
            waits = f", waiting on {names}" if names else ""
            raise WaitTimeout(
                f"run {self.id!r} ({seen.run.saga}) is {seen.run.status.value} ({seen.run.reason or 'no time-out'})"
                f"{waits}: no time that passes will end it. Send it the signal, or resume it."
            )
        return self._last_look(0.0)

    def events(self, after: int = 0) -> Iterator[HistoryRecord]:
        """As of `RunHandle`, working and moving the clock; ends also where no time that passes brings anything more."""

        def has_more() -> bool:
            return bool(self._engine.store.history(self._id, after=after)) or self._now().run.status.is_end

        while True:
            self._until(has_more, None)
            new = self._engine.store.history(self._id, after=after)
            yield from new
            if not new:
                return
            after = new[-1].seq

    async def events_async(self, after: int = 0) -> AsyncIterator[HistoryRecord]:
        """As `events`."""
        for row in self.events(after):
            yield row

    async def wait_async(self, timeout: float | timedelta | None = None) -> R:
        """As `wait`."""
        return self.wait(timeout)
