"""The Django application of celery_saga: add `contrib_django` to INSTALLED_APPS."""
