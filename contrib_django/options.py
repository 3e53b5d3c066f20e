"""The `CELERY_SAGA_*` settings of a Django project, by the names that celery_saga has for them."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings

from celery_saga.runtime.settings import NAMES

__all__ = ["DATABASE", "database_alias", "named", "options", "unknown"]

_PREFIX: Final = "CELERY_SAGA_"
DATABASE: Final = "CELERY_SAGA_DATABASE"
"""Names the alias in `DATABASES` under which runs are kept; else `CELERY_SAGA_DATABASE_URL` says where."""


def named(option: str) -> str:
    """The setting of an option: `CELERY_SAGA_LEASE` of `lease`."""
    return _PREFIX + option.upper()


def options() -> dict[str, Any]:
    """What the project's settings say, as they say it, by the names that `CelerySaga()` takes."""
    return {name: getattr(settings, named(name)) for name in sorted(NAMES) if hasattr(settings, named(name))}


def database_alias() -> str | None:
    """What `CELERY_SAGA_DATABASE` says; None where it is not set."""
    return getattr(settings, DATABASE, None) or None


def unknown() -> list[str]:
    """Settings that begin as ours do and are none."""
    known = {DATABASE, *map(named, NAMES)}
    return sorted(name for name in dir(settings) if name.startswith(_PREFIX) and name not in known)
