"""Sagas inside Celery: the only part that knows Celery and kombu."""
