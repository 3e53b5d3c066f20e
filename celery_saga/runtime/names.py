"""The names under which celery_saga appears on the wire: its tasks and its message header."""

from __future__ import annotations

from typing import Final

__all__ = ["COORDINATE", "FIRE", "HEADER", "REPORT", "STEP"]

COORDINATE: Final = "celery_saga.coordinate"
"""The Celery task that advances a run."""
FIRE: Final = "celery_saga.fire"
"""The Celery task by which a beat wakes a schedule."""
STEP: Final = "celery_saga.step"
"""The wire name of every step; a worker without the plug-in rejects it unread."""
REPORT: Final = "celery_saga.report"
"""The Celery task that takes the result of a step from a worker without the plug-in."""
HEADER: Final = "celery_saga"
"""The message header that carries the ids of a run and a step."""
