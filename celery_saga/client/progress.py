"""Progress of a step: as its task reports it, as it is stored, as a handle shows it."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_saga.core.records import StepRecord
from celery_saga.core.unreadable import Unreadable

__all__ = ["Progress", "of_step", "of_steps", "text_of"]

logger = logging.getLogger("celery_saga.step")

_MAX_MESSAGE = 200  # characters


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step is: `current` of `total` (None: not known), in the task's own unit; stored `at`, aware UTC."""

    current: float
    total: float | None
    message: str | None
    at: datetime

    @property
    def fraction(self) -> float | None:
        """The part that is done, from 0 to 1; None where the total is not known."""
        if self.total is None or self.total <= 0:
            return None
        return min(1.0, max(0.0, self.current / self.total))


def text_of(current: Any, total: Any, message: Any, *, step: str) -> str | None:
    """What a task reports, as text; None, and a warning in the log, where that cannot be shown.

    Args:
        step: key of the step, for the log.
    """
    if _is_number(current) and (total is None or _is_number(total)):
        shown = None if message is None else str(message)[:_MAX_MESSAGE].encode("utf-8", "replace").decode()
        return json.dumps([_plain(current), None if total is None else _plain(total), shown])
    logger.warning("step %r: progress(%r, %r) takes finite numbers; the report was left out", step, current, total)
    return None


def of_step(step: StepRecord) -> Progress | None:
    """What is stored of a step's progress; None: nothing, or nothing that can be read now."""
    if step.progress_text is None or step.progress_at is None or isinstance(step.progress_text, Unreadable):
        return None
    current, total, message = json.loads(step.progress_text)
    return Progress(current, total, message, step.progress_at)


def of_steps(steps: Mapping[str, StepRecord]) -> dict[str, Progress]:
    """Of those that have reported any, by step key, in the order in which they were ordered."""
    return {key: found for key, step in steps.items() if (found := of_step(step)) is not None}


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, str | bytes | bool) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _plain(value: Any) -> int | float:
    return int(value) if value == int(value) else float(value)
