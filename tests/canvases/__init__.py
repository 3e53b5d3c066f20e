"""Celery canvases as sagas."""
