"""A thread that talks to the broker, so that nobody waits for the broker longer than agreed."""

from __future__ import annotations

import contextvars
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from celery_saga.runtime.daemon import start_daemon

__all__ = ["Line", "Ticket"]

logger = logging.getLogger("celery_saga.publisher")

_STUCK_S = 30.0


class Ticket:
    """One thing asked of a line. The thread fills in `answer`; whoever waited too long sets `abandoned`."""

    __slots__ = ("abandoned", "answer", "context", "done", "job")

    def __init__(self, job: Callable[[Ticket], None], answer: Any) -> None:
        self.job = job
        self.answer = answer
        self.abandoned = False
        self.done = threading.Event()
        self.context = contextvars.copy_context()  # hooks of before_task_publish read traces and the like there


class Line:
    """Does one job after the other in a daemon thread of the calling process.

    A broker that holds publishers back (RabbitMQ with an alarm) blocks a socket without bound; time-outs of
    sockets do not help, as its heartbeats go on. So the call is given up, not the wait shortened: the thread stays
    behind until the broker answers, and is replaced after 30 s.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._pid = 0
        self._jobs: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._stuck: Ticket | None = None
        self._stuck_at_s = 0.0

    def ask(self, job: Callable[[Ticket], None], answer: Any, *, timeout_s: float) -> Any:
        """Do `job(ticket)` in the thread; whatever `ticket.answer` is when that ends or the time is up.

        While a job that was given up still blocks the thread, `answer` comes back at once.
        """
        ticket = Ticket(job, answer)
        if not self._put(ticket):
            return answer
        if not ticket.done.wait(timeout_s):
            ticket.abandoned = True
            with self._lock:
                if not ticket.done.is_set() and (self._stuck is None or self._stuck.done.is_set()):
                    self._stuck, self._stuck_at_s = ticket, time.monotonic()
        return ticket.answer

    def _put(self, ticket: Ticket) -> bool:
        with self._lock:
            if self._pid != os.getpid():
                self._open()
            elif self._stuck is not None and not self._stuck.done.is_set():
                if time.monotonic() - self._stuck_at_s < _STUCK_S:
                    return False
                self._jobs.put(None)  # for the old thread, should it ever come back
                self._open()
            self._jobs.put(ticket)
        return True

    def _open(self) -> None:
        self._pid, self._stuck, self._jobs = os.getpid(), None, queue.SimpleQueue()
        jobs = self._jobs
        start_daemon(lambda: _work(jobs), self._name)

    def close(self) -> None:
        """Let the thread end after what it was asked."""
        with self._lock:
            if self._pid == os.getpid():
                self._jobs.put(None)
            self._pid = 0


def _work(jobs: queue.SimpleQueue[Ticket | None]) -> None:
    while (ticket := jobs.get()) is not None:
        try:
            if not ticket.abandoned:
                ticket.context.run(ticket.job, ticket)
        except BaseException:  # also SystemExit, of a router or a hook: who asks next needs this thread
            logger.exception("what a thread for the broker was asked failed; it goes on")
        finally:
            ticket.done.set()
        del ticket
