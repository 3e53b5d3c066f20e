"""Checks of what the project's code and settings say: the Celery app, settings, sagas, schedules."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from celery import Celery
from django.apps import apps
from django.conf import settings

from celery_saga.errors import DefinitionError
from celery_saga.runtime.app import CelerySaga
from celery_saga.runtime.guard import Finding
from celery_saga.runtime.sagas import registry_of
from celery_saga.runtime.scheduling import refused
from celery_saga.runtime.settings import NAMES, checked
from contrib_django import options
from contrib_django.checks import codes
from contrib_django.checks.messages import message
from contrib_django.installing import followed_of
from contrib_django.project import celery_app

__all__ = ["check_project", "check_schedules"]

_OF_ITS_OWN = ("sagas", "database_url")
"""Settings with a check for what they name."""


def check_project(app_configs: Any, **_: Any) -> list[Any]:
    """The Celery app, and each setting for itself."""
    return [message(finding) for finding in _project(celery_app())]


def check_schedules(app_configs: Any, **_: Any) -> list[Any]:
    """`CELERY_SAGA_SCHEDULES`, and who fires them."""
    app = celery_app()
    return [] if app is None else [message(finding) for finding in _schedules(app)]


def _project(app: Celery | None) -> Iterator[Finding]:
    if app is None:
        yield codes.NO_APP.found()
    known = [options.DATABASE, *map(options.named, sorted(NAMES))]
    for name in options.unknown():
        near = difflib.get_close_matches(name, known, n=1)
        yield codes.UNKNOWN_SETTING.found(name=name, guess=f" ({near[0]}?)" if near else "")
    for name, value in options.options().items():
        try:
            checked({name: value})
        except DefinitionError as error:
            yield codes.BAD_SETTING.found(reason=_named(str(error), name))
    yield from _sagas()
    followed = None if app is None else followed_of(app)
    if followed is not None:
        followed.load()
        if followed.trouble is not None:
            yield codes.BAD_DATABASE.found(reason=followed.trouble)
        elif not settings.DEBUG and followed.vendor == "sqlite" and not followed.is_of_a_test:
            yield codes.SQLITE.found()


def _named(reason: str, option: str) -> str:
    return reason.replace(f"saga_{option}", options.named(option), 1)


def _sagas() -> Iterator[Finding]:
    try:
        named = checked({"sagas": options.options().get("sagas")})["sagas"]
    except DefinitionError:
        return  # told as a setting
    for each in named or ():
        try:
            registry_of([each], 1024)
        except Exception as error:  # noqa: BLE001 - whatever the module raises
            yield codes.UNKNOWN_SAGA.found(reason=_named(str(error) or repr(error), "sagas"))


def _schedules(app: Celery) -> Iterator[Finding]:
    followed = followed_of(app)
    if followed is None or not isinstance(getattr(app, "saga", None), CelerySaga):
        return
    try:
        services = CelerySaga.of(app).services
    except DefinitionError:
        return  # told elsewhere
    if not services.settings.schedules:
        return
    for name, reason in refused(services).items():
        yield codes.BAD_SCHEDULE.found(name=name, reason=reason)
    if not apps.is_installed("django_celery_beat"):
        yield codes.NO_BEAT.found()
    elif "DatabaseScheduler" not in str(app.conf.beat_scheduler):
        yield codes.OTHER_SCHEDULER.found(scheduler=str(app.conf.beat_scheduler))
