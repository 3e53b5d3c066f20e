"""Registers the application with Django under the label `celery_saga`."""

from __future__ import annotations

from django.apps import AppConfig, apps


class CelerySagaConfig(AppConfig):
    """The application; its label, which prefixes tables and migrations, is `celery_saga`."""

    name = "contrib_django"
    label = "celery_saga"
    verbose_name = "Celery sagas"

    def ready(self) -> None:
        """Add sagas to the project's Celery app, whose schedules are periodic tasks where django-celery-beat is."""
        from contrib_django import checks, installing  # noqa: PLC0415 - the settings may be read now

        installing.install()
        checks.connect()
        if apps.is_installed("django_celery_beat"):
            from contrib_django import beat  # noqa: PLC0415 - its models may be imported now, and only where they are

            beat.connect()
