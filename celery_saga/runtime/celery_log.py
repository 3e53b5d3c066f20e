"""Celery's own records about steps: with the step's attributes, and not above INFO where the engine tells the same.

A failed attempt is one WARNING of `celery_saga.step`; without this Celery would add an ERROR to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from celery_saga.core.log_fields import fields_of
from celery_saga.runtime.attempt import current

__all__ = ["install_log_filters", "told_by_the_engine"]

_local = threading.local()


@contextmanager
def told_by_the_engine() -> Iterator[None]:
    """In a worker's main process: what Celery says in this block about an attempt that ended, the engine says too."""
    _local.is_told = True
    try:
        yield
    finally:
        _local.is_told = False


class _OfAttempts(logging.Filter):
    """For the logger of Celery's tracer, in the process that executes."""

    def filter(self, record: logging.LogRecord) -> bool:
        attempt = current.get()
        if attempt is None or attempt.in_body or not attempt.entered:
            return True
        step = attempt.claimed.step
        record.__dict__.update(fields_of(attempt.claimed.snapshot.run, step.key, step.attempt))
        return _quietly(record)


class _OfRequests(logging.Filter):
    """For the logger of Celery's requests, in the main process."""

    def filter(self, record: logging.LogRecord) -> bool:
        return _quietly(record) if getattr(_local, "is_told", False) else True


def _quietly(record: logging.LogRecord) -> bool:
    if record.levelno > logging.INFO:
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        return logging.getLogger(record.name).isEnabledFor(logging.INFO)
    return True


_OF_ATTEMPTS, _OF_REQUESTS = _OfAttempts(), _OfRequests()


def install_log_filters() -> None:
    """Once in a process; again does nothing."""
    logging.getLogger("celery.app.trace").addFilter(_OF_ATTEMPTS)
    logging.getLogger("celery.worker.request").addFilter(_OF_REQUESTS)
