"""Other Celery apps and databases, inside the project's process; for suites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from django.db import connections
from django.test import override_settings

from celery_saga.runtime.services import per_process
from contrib_django.installing import install


@contextmanager
def installed(*, namespace: str | None = "CELERY", app: Celery | None = None, **settings: Any) -> Iterator[Celery]:
    """An app beside the project's, current, with what `AppConfig.ready` does, under other settings."""
    with override_settings(**settings):
        made = other(namespace) if app is None else app
        made.set_current()
        install()
        try:
            yield made
        finally:
            per_process(made).close()


def other(namespace: str | None = "CELERY") -> Celery:
    """A Celery app that has its configuration from Django's settings."""
    app = Celery("djother")
    app.config_from_object("django.conf:settings", namespace=namespace)
    return app


@contextmanager
def alias(name: str, **said: Any) -> Iterator[str]:
    """One more database in DATABASES; nothing is connected."""
    there = connections.settings
    there[name] = {**{key: value for key, value in there["default"].items() if key != "OPTIONS"}, "OPTIONS": {}, **said}
    try:
        yield name
    finally:
        connections[name].close()
        del connections[name], there[name]
