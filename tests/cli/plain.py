"""A project without celery_saga."""

from __future__ import annotations

from celery import Celery

app = Celery("plain", broker="memory://")
