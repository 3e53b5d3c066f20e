"""Checks that runs are kept in the database in which the project's code opens its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

from celery import Celery
from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, router

from celery_saga.errors import DefinitionError
from celery_saga.runtime.app import CelerySaga
from celery_saga.runtime.guard import Finding
from contrib_django.checks import codes
from contrib_django.checks.messages import message
from contrib_django.installing import followed_of
from contrib_django.project import celery_app

__all__ = ["check_placing"]


def check_placing(app_configs: Any, **_: Any) -> list[Any]:
    """Transactions of requests, and those of transactional steps."""
    app = celery_app()
    followed = None if app is None else followed_of(app)
    if app is None or followed is None:
        return []
    followed.load()
    if followed.trouble is not None:
        return []
    alias = followed.alias
    where = "a database of CELERY_SAGA_DATABASE_URL" if alias is None else repr(alias)
    return [message(finding) for finding in (*_requests(alias, where), *_steps(app, alias, where))]


def _requests(alias: str | None, where: str) -> Iterator[Finding]:
    said = connections.settings
    atomic = sorted(each for each in said if said[each].get("ATOMIC_REQUESTS"))
    if atomic and alias not in atomic:
        yield codes.ATOMIC_ELSEWHERE.found(aliases=", ".join(map(repr, atomic)), where=where)


def _steps(app: Celery, alias: str | None, where: str) -> Iterator[Finding]:
    try:
        sagas = sorted(CelerySaga.of(app).registry, key=lambda saga: (saga.name, saga.version))
    except DefinitionError:
        return  # told elsewhere
    for saga in sagas:
        if not saga.has_body or not _says_transactional(getattr(saga.body, "__code__", None)):
            continue
        label, others = _written_elsewhere(saga.body.__module__, alias)
        if others:
            yield codes.STEPS_ELSEWHERE.found(saga=saga.name, app=label, alias=others[0], where=where)


def _says_transactional(code: CodeType | None) -> bool:
    """Whether a body, or a function in it, calls anything with `transactional=`."""
    if code is None:
        return False
    words = (each for each in code.co_consts if isinstance(each, tuple))
    inside = (each for each in code.co_consts if isinstance(each, CodeType))
    return any("transactional" in each for each in words) or any(map(_says_transactional, inside))


def _written_elsewhere(module: str, alias: str | None) -> tuple[str, list[str]]:
    """The Django app of a module, and the databases that its models are written to other than the alias."""
    config = apps.get_containing_app_config(module)
    if config is None:
        return module, [DEFAULT_DB_ALIAS] if alias != DEFAULT_DB_ALIAS else []
    written = {router.db_for_write(model) for model in config.get_models()} or {DEFAULT_DB_ALIAS}
    return config.label, sorted(written - {alias})
