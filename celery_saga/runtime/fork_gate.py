"""Keeps forks out of the sweeper's ticks, and ticks from holding a fork up."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["FORK_GATE", "ForkGate"]

_WAIT_S = 0.1


class ForkGate:
    """A lock that the sweeper holds while it works, and a fork takes for at most 0.1 s.

    A child forked during a tick is safe all the same, because it never touches the sweeper's engine, connection or
    locks; the gate spares it copies of a driver's half-done work. Without the bound a slow tick would freeze the
    worker's main loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._registered = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """A tick."""
        self._register()
        with self._lock:
            yield

    def _register(self) -> None:
        if not self._registered and hasattr(os, "register_at_fork"):
            self._registered = True
            os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def _before(self) -> None:
        self._taken = self._lock.acquire(timeout=_WAIT_S)

    def _in_parent(self) -> None:
        if self._taken:
            self._taken = False
            self._lock.release()

    def _in_child(self) -> None:
        self._taken = False
        self._lock = threading.Lock()


FORK_GATE = ForkGate()
"""Of this process: hooks of fork cannot be taken back."""
