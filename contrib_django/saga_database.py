"""Which of Django's databases has the saga tables, and how their names begin: from Django's settings."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, router

__all__ = ["SagaRouter", "alias_for", "saga_alias", "table"]

LABEL = "celery_saga"


def saga_alias() -> str | None:
    """The alias of `CELERY_SAGA_DATABASE`; without it `default`, or None where `CELERY_SAGA_DATABASE_URL` is set."""
    named: str | None = getattr(settings, "CELERY_SAGA_DATABASE", None)
    if named:
        return named
    return None if getattr(settings, "CELERY_SAGA_DATABASE_URL", None) else DEFAULT_DB_ALIAS


def alias_for(model: Any, hints: dict[str, Any]) -> str:
    """Where rows of a model of ours are read: a router's word goes first."""
    routed = router.db_for_read(model, **hints)
    return routed if routed != DEFAULT_DB_ALIAS else saga_alias() or routed


def table(name: str) -> str:
    """The name of a table with `CELERY_SAGA_TABLE_PREFIX` in front."""
    return f"{getattr(settings, 'CELERY_SAGA_TABLE_PREFIX', None) or ''}{name}"


class SagaRouter:
    """For `DATABASE_ROUTERS` of a project with several databases: saga tables are on one of them, and only there."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        """The saga database for our models; no word on others."""
        return saga_alias() if model._meta.app_label == LABEL else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Our tables on the saga database alone; no word on others."""
        return db == saga_alias() if app_label == LABEL else None
