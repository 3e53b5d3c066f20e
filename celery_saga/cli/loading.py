"""Loads the Celery app that `-A` names."""

from __future__ import annotations

from celery import Celery
from celery.app.utils import find_app

from celery_saga.cli.diagnostics import Trouble

__all__ = ["NO_APP", "load", "told"]

NO_APP = (
    "no Celery app was given. Name the module that has yours, as for a worker: "
    "`celery -A proj saga ...` or `celery-saga -A proj ...`"
)


def load(name: str | None) -> Celery:
    """The app.

    Args:
        name: as for `celery -A`: `proj`, `proj.celery`, `proj.celery:app`.
    Raises:
        Trouble: none was named, or it cannot be loaded.
    """
    if name is None:
        raise Trouble("NO_APP", NO_APP, exit_code=2)
    try:
        app: Celery = find_app(name)
    except Exception as error:
        raise Trouble("APP_NOT_LOADED", f"the app {name!r} cannot be loaded: {told(error)}") from error
    return app


def told(error: BaseException) -> str:
    """Class and text of an error."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
