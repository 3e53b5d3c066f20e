"""The project: settings, Celery app, URLs."""

from website.celery import app as celery_app

__all__ = ["celery_app"]
