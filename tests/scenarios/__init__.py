"""Behaviour that earlier systems document, each restated as one test of celery_saga."""
