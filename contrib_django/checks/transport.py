"""What `celery saga check` finds, as system checks: by the settings alone, or by asking broker and database."""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import Any, Final

from celery import Celery

from celery_saga.runtime.checking import check
from celery_saga.runtime.guard import Asks, Finding, Level
from contrib_django.checks.messages import message
from contrib_django.checks.tables import asked_about
from contrib_django.installing import followed_of
from contrib_django.project import celery_app

__all__ = ["check_broker", "check_servers", "check_transport"]

_OURS: Final = frozenset(("DATABASE_URL_ABSENT", "DATABASE_URL_INVALID", "SCHEMA_ABSENT", "SCHEMA_OUTDATED"))
"""Codes of which Django's own checks tell: E004, W001."""
_OF_NO_TEST: Final = frozenset(("SQLITE_IN_MEMORY",))
"""Codes that say nothing about the database of a test, which one process has for itself."""
_importing: ContextVar[bool] = ContextVar("celery_saga_check_imports_modules", default=False)


def check_transport(app_configs: Any, **_: Any) -> list[Any]:
    """Errors and warnings that follow from the settings alone."""
    app = _app()
    return [] if app is None else [message(each) for each in _found(app, Asks.NOBODY) if each.level is not Level.INFO]


def check_broker(app_configs: Any, **_: Any) -> list[Any]:
    """What else the broker's answers show, and what is only worth knowing."""
    app = _app()
    if app is None or _importing.get():
        return []
    _import_tasks(app)
    told = {each.code for each in _found(app, Asks.NOBODY) if each.level is not Level.INFO}
    return [message(each) for each in _found(app, Asks.BROKER) if each.code not in told]


def check_servers(app_configs: Any, databases: Collection[str] | None = None, **_: Any) -> list[Any]:
    """What else the database's answers show."""
    app = _app()
    followed = None if app is None else followed_of(app)
    if app is None or followed is None or _importing.get() or not asked_about(followed, databases):
        return []
    _import_tasks(app)
    told = {each.code for each in _found(app, Asks.BROKER)}
    return [message(each) for each in _found(app, Asks.ALL) if each.code not in told]


def _app() -> Celery | None:
    app = celery_app()
    followed = None if app is None else followed_of(app)
    if followed is None:
        return None
    followed.load()
    return None if followed.trouble is not None else app


def _found(app: Celery, asks: Asks) -> list[Finding]:
    followed = followed_of(app)
    untold = _OURS | _OF_NO_TEST if followed is not None and followed.is_of_a_test else _OURS
    return [each for each in check(app, asks=asks) if each.code not in untold]


def _import_tasks(app: Celery) -> None:
    """As a worker does; Celery's fixup for Django runs all checks then, and these must not begin again."""
    token = _importing.set(True)
    try:
        app.loader.import_default_modules()
    finally:
        _importing.reset(token)
