"""Writes the progress that steps report, from one thread of the process that executes them (a greenlet under gevent).

A report costs its task a lock and a dictionary. The thread writes the newest one of each step, at most one a second;
what is not written when the attempt ends goes along with its check-in.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery_saga.runtime.daemon import start_daemon

if TYPE_CHECKING:
    from celery_saga.runtime.attempt import Attempt
    from celery_saga.store import SqlStore

__all__ = ["EVERY_S", "Reports"]

logger = logging.getLogger("celery_saga.step")

EVERY_S = 1.0
"""At most one write of a step's progress in so many seconds."""


@dataclass(slots=True)
class _Report:
    """The newest report of one attempt. `next_s`, of the monotonic clock: not written before."""

    attempt: Attempt
    text: str | None = None  # None: it is written
    next_s: float = 0.0


class Reports:
    """Keeps the newest report of each attempt, and writes it.

    Args:
        store: not the one that checks attempts in, so that a busy pool of connections cannot hold either up.
    """

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._of: dict[int, _Report] = {}
        self._pid = 0

    def put(self, attempt: Attempt, text: str) -> None:
        """Take a report of a running attempt, in place of the one before; returns at once."""
        with self._changed:
            report = self._of.setdefault(id(attempt), _Report(attempt))
            was_written, report.text = report.text is None, text
            if self._pid != os.getpid():
                self._pid = os.getpid()
                start_daemon(self._loop, "saga-progress")
            elif was_written:
                self._changed.notify()

    def take(self, attempt: Attempt) -> str | None:
        """The last report of an attempt that ends, where it is not known to be written; forgets the attempt."""
        with self._changed:
            report = self._of.pop(id(attempt), None)
            return None if report is None else report.text

    def _loop(self) -> None:
        while True:
            for report in self._due():
                self._write(report)

    def _due(self) -> list[_Report]:
        """The reports that are to be written, once there is one."""
        with self._changed:
            while True:
                now_s = time.monotonic()
                waiting = [report for report in self._of.values() if report.text is not None]
                due = [report for report in waiting if report.next_s <= now_s]
                if due:
                    return due
                self._changed.wait(min((report.next_s - now_s for report in waiting), default=None))

    def _write(self, report: _Report) -> None:
        text, step = report.text, report.attempt.claimed.step
        report.next_s = time.monotonic() + EVERY_S
        if text is None:
            return  # its attempt has ended meanwhile
        try:
            self._store.report_progress(
                step.run_id, step.generation, step.key, token=step.claim_token or "", progress_text=text
            )
        except Exception as error:  # noqa: BLE001  # progress is a courtesy: a later report, or the check-in, brings it
            logger.debug("progress of step %r of run %s was not written: %s", step.key, step.run_id, error)
            return
        with self._changed:
            if report.text is text:
                report.text = None
