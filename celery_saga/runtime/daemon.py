"""Threads of our own: daemons in which no OS signal meant for the user's task can land."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from billiard.exceptions import SoftTimeLimitExceeded

__all__ = ["SOFT_LIMIT", "soft_limit_held", "start_daemon"]

SOFT_LIMIT = getattr(signal, "SIGUSR1", None)
"""What Celery's prefork pool sends to a child whose soft time limit is over."""


@contextmanager
def soft_limit_held() -> Iterator[None]:
    """Keep a soft time limit out of the block; one that came meanwhile is dropped at its end.

    For a checkpoint: interrupted after its commit, it would be taken for the step's failure.
    """
    if SOFT_LIMIT is None or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {SOFT_LIMIT})
    try:
        yield
    finally:
        # The handler runs inside this very call, if the signal is pending.
        with suppress(SoftTimeLimitExceeded):
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_daemon(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread (a greenlet under gevent) with the soft time limit's signal blocked in it.

    Else the signal could be delivered to it, and the main thread, waiting in a system call, would not wake up.
    """
    thread = threading.Thread(target=target, name=name, daemon=True)
    if SOFT_LIMIT is None or not hasattr(signal, "pthread_sigmask"):
        thread.start()
        return thread
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {SOFT_LIMIT})  # a new thread inherits the mask
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
