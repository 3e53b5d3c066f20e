"""How to wait for something that is asked for again and again: soon at first, then less and less often."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import timedelta

from celery_saga.core.children import is_of_child
from celery_saga.core.ports import Loaded
from celery_saga.core.records import StepRecord
from celery_saga.core.retry import seconds
from celery_saga.core.status import StepStatus

__all__ = ["children_of", "due_steps", "is_due", "pauses_s"]

_FIRST_S = 0.01
_LONGEST_S = 0.5
_GROWTH = 1.5


def pauses_s(timeout: float | timedelta | None) -> Iterator[float]:
    """Pauses between two questions, in seconds, from 10 ms growing to 500 ms; ends when the time-out has come.

    Args:
        timeout: in seconds or as timedelta, at least 0; None: for ever.
    Raises:
        DefinitionError: the time-out is negative or not finite.
    """
    timeout_s = math.inf if timeout is None else seconds(timeout, "timeout")
    return _pauses(time.monotonic() + timeout_s)


def is_due(loaded: Loaded) -> bool:
    """Something may be to be done: it is to be decided, a step, timer or time-out has come due, or a child lives."""
    at = loaded.snapshot.run.wake_at
    is_its_own = (at is not None and at <= loaded.now) or bool(due_steps(loaded))
    return loaded.snapshot.is_live and (is_its_own or bool(children_of(loaded)))


def due_steps(loaded: Loaded) -> list[StepRecord]:
    """Steps, timers and waits of the run whose time has come."""
    return [x for x in loaded.snapshot.steps.values() if x.wake_at is not None and x.wake_at <= loaded.now]


def children_of(loaded: Loaded) -> list[str]:
    """Ids of the runs that this one waits for: children that live, or that are being undone."""
    waiting = (x for x in loaded.snapshot.steps.values() if x.status is StepStatus.WAITING and is_of_child(x))
    return [x.task_id for x in waiting if x.task_id is not None]


def _pauses(end_s: float) -> Iterator[float]:
    pause_s = _FIRST_S
    while (left_s := end_s - time.monotonic()) > 0:
        # The last pause ends with the time-out, so that the last question is asked when it has come.
        yield min(pause_s, left_s)
        pause_s = min(pause_s * _GROWTH, _LONGEST_S)
