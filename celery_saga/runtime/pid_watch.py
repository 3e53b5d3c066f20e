"""Waits for the next tick, a report of the pool, or the death of a pool child, whichever comes first."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from celery_saga.runtime.hints import Hints

__all__ = ["PidWatch"]

_LOOK_S = 1.0


class PidWatch:
    """One wait over a pipe and the children's pidfds. On systems without pidfds only the pool's own reports count.

    Args:
        hints: told about deaths, and writes to the pipe.
        pids: the children that are alive now.
    """

    def __init__(self, hints: Hints, pids: Callable[[], Iterable[int]]) -> None:
        self._hints = hints
        self._pids = pids
        self._fds: dict[int, int] = {}  # pidfd -> pid
        self._closed = False
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        hints.wake_through(self._write_fd)

    def wait(self, timeout_s: float) -> None:
        """Return after `timeout_s` seconds, or as soon as there is a report."""
        end_s = time.monotonic() + timeout_s
        while True:
            self._open_new()
            left_s = end_s - time.monotonic()
            poll = select.poll()
            poll.register(self._read_fd, select.POLLIN)
            for fd in self._fds:
                poll.register(fd, select.POLLIN)
            ready = poll.poll(max(0.0, min(left_s, _LOOK_S)) * 1000)
            for fd, _ in ready:
                if fd == self._read_fd:
                    with suppress(BlockingIOError):
                        os.read(fd, 4096)
                else:
                    self._died(fd)
            if ready or left_s <= _LOOK_S:
                return

    def wake(self) -> None:
        """End a wait now."""
        if not self._closed:
            with suppress(OSError):
                os.write(self._write_fd, b"!")

    def close(self) -> None:
        """Close everything."""
        if self._closed:
            return
        self._closed = True
        self._hints.wake_through(None)
        for fd in (*self._fds, self._read_fd, self._write_fd):
            with suppress(OSError):
                os.close(fd)
        self._fds.clear()

    def _open_new(self) -> None:
        if not hasattr(os, "pidfd_open"):
            return
        known = set(self._fds.values())
        for pid in self._pids():
            if pid not in known:
                with suppress(OSError):  # gone already: the pool will tell
                    self._fds[os.pidfd_open(pid)] = pid

    def _died(self, fd: int) -> None:
        pid = self._fds.pop(fd)
        os.close(fd)
        self._hints.died(pid)
