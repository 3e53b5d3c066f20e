"""Gives each record of the log the run, saga, step and attempt that it was written in."""

from __future__ import annotations

import logging

from celery_saga.client.current import context
from celery_saga.core.log_fields import NAMES

__all__ = ["SagaLogFilter"]


class SagaLogFilter(logging.Filter):
    """Lets every record pass, with `saga_run`, `saga_name`, `saga_step` and `saga_attempt`; see docs/logging.md.

    For handlers: a filter of a logger does not see the records of the loggers below it. The attributes are those that
    the record has already, else those of the step that the thread executes, else None: so a formatter can name them
    for any record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        step = context()
        told = (None,) * 4 if step is None else (step.run_id, step.saga, step.step, step.attempt)
        for name, value in zip(NAMES, told, strict=True):
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
