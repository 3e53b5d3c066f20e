"""What an outage makes happen again and again is told at most twice a minute, however many it hits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping

__all__ = ["Seldom"]

_MOST_KEPT = 1000


class Seldom:
    """A logger for warnings about what is out of reach. Shared by the threads of a process.

    Args:
        logger: where to.
        every_s: for how long nothing of the same kind is told again, in seconds.
        monotonic_s: measures durations.
    """

    def __init__(
        self, logger: logging.Logger, *, every_s: float = 30.0, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger, self._every_s, self._monotonic_s = logger, every_s, monotonic_s
        self._told_at_s: dict[Hashable, float] = {}

    def warning(self, text: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """A WARNING, where this text was not told lately; else the same at DEBUG."""
        self._logger.log(self._level(text, logging.WARNING), text, *args, extra=extra)

    def exception(self, text: str, *args: object) -> None:
        """An ERROR with the exception that is being handled, where this text was not told lately; else at DEBUG."""
        self._logger.log(self._level(text, logging.ERROR), text, *args, exc_info=True)

    def _level(self, kind: Hashable, level: int) -> int:
        now_s = self._monotonic_s()
        if now_s - self._told_at_s.get(kind, -self._every_s) < self._every_s:
            return logging.DEBUG
        if len(self._told_at_s) >= _MOST_KEPT:
            self._told_at_s.clear()
        self._told_at_s[kind] = now_s
        return level
