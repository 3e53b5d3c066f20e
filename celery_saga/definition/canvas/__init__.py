"""Celery canvases as bodies of sagas: read into nodes of our own, and driven through a run."""

from __future__ import annotations

from celery_saga.definition.canvas.body import body_of, perform
from celery_saga.definition.canvas.reading import read_canvas
from celery_saga.definition.canvas.tree import from_plain, to_plain

__all__ = ["body_of", "from_plain", "perform", "read_canvas", "to_plain"]
