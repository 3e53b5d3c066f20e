"""Checks of the saga database itself: it answers, and has the tables of this version."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Any

from celery import Celery
from django.db import DEFAULT_DB_ALIAS

from celery_saga.errors import DefinitionError, StoreUnavailable
from celery_saga.runtime.checking import impatient_store
from celery_saga.runtime.guard import Finding
from celery_saga.store import schema_state
from contrib_django.checks import codes
from contrib_django.checks.messages import message
from contrib_django.installing import Followed, followed_of
from contrib_django.project import celery_app

__all__ = ["asked_about", "check_database"]


def check_database(app_configs: Any, databases: Collection[str] | None = None, **_: Any) -> list[Any]:
    """Asks the saga database, where it is among those that may be asked."""
    app = celery_app()
    followed = None if app is None else followed_of(app)
    if app is None or followed is None or not asked_about(followed, databases):
        return []
    return [message(finding) for finding in _tables(app, followed.alias)]


def asked_about(followed: Followed, databases: Collection[str] | None) -> bool:
    """Whether Django lets checks ask the saga database; one that is none of Django's when any may be asked."""
    followed.load()
    if followed.trouble is not None or not databases:
        return False
    return followed.alias is None or followed.alias in databases


def _tables(app: Celery, alias: str | None) -> Iterator[Finding]:
    where = "of CELERY_SAGA_DATABASE_URL" if alias is None else repr(alias)
    option = "" if alias in {None, DEFAULT_DB_ALIAS} else f" --database {alias}"
    command = "manage.py saga migrate" if alias is None else f"manage.py migrate celery_saga{option}"
    try:
        with impatient_store(app) as store:
            state = schema_state(store)
    except (StoreUnavailable, DefinitionError) as error:
        yield codes.NO_DATABASE.found(where=where, reason=error, option=option)
        return
    # `migrate` checks its database too, and is not told to do what it is about to do.
    if state in {"absent", "outdated"} and sys.argv[1:2] != ["migrate"]:
        told = "not there" if state == "absent" else "older than this version of celery_saga"
        yield codes.NOT_MIGRATED.found(where=where, state=told, command=command)
