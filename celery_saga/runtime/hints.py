"""What the pool tells about attempts: put down by the worker's main loop, read by the sweeper's thread."""

from __future__ import annotations

import os
import queue
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["HINTS", "Hint", "HintKind", "Hints"]


class HintKind(StrEnum):
    """What happened to a step's message or attempt."""

    ENDED = "ended"  # the process of the attempt is gone
    TIME_LIMIT = "time_limit"  # a hard time limit has killed it
    REVOKED = "revoked"  # its Celery id was revoked
    UNKNOWN_TASK = "unknown_task"  # this worker does not have the task


@dataclass(frozen=True, slots=True)
class Hint:
    """One report. `ref` is the step's message header; `pid` of the process that executed it, None if none did."""

    kind: HintKind
    ref: Mapping[str, Any]
    pid: int | None = None
    limit_s: float | None = None


class Hints:
    """A queue between the main loop, which must not wait, and the sweeper; and which child executes what."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Hint] = queue.SimpleQueue()
        self._running: dict[int, Mapping[str, Any]] = {}
        self._wake_fd: int | None = None

    def put(self, hint: Hint) -> None:
        """Leave a report; never blocks. Where nobody reads it is dropped: then leases end by themselves."""
        if self._wake_fd is None:
            return
        self._queue.put(hint)
        with suppress(OSError):  # full: the reader is awake anyway
            os.write(self._wake_fd, b"!")

    def take(self) -> list[Hint]:
        """All reports so far."""
        found: list[Hint] = []
        with suppress(queue.Empty):
            while True:
                found.append(self._queue.get_nowait())
        return found

    def wake_through(self, fd: int | None) -> None:
        """Where to write a byte after each report; None: nowhere."""
        self._wake_fd = fd

    def started(self, pid: int, ref: Mapping[str, Any]) -> None:
        """A pool child has taken this step."""
        self._running[pid] = ref

    def finished(self, pid: int | None) -> None:
        """That child has answered."""
        if pid is not None:
            self._running.pop(pid, None)

    def died(self, pid: int) -> None:
        """That child is gone; if it executed a step, that is a report."""
        ref = self._running.pop(pid, None)
        if ref is not None:
            self.put(Hint(HintKind.ENDED, ref, pid))


HINTS = Hints()
"""Of this worker process."""
