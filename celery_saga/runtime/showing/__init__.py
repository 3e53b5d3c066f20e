"""Runs as tasks of Celery's own event stream, which is what Flower shows."""
