"""A finding as a message of Django's, with settings by the names that the project's settings have for them."""

from __future__ import annotations

import re
from typing import Any, Final

from celery.app.defaults import DEFAULTS
from django.core import checks

from celery_saga.runtime.guard import Finding, Level
from celery_saga.runtime.settings import NAMES
from celery_saga.runtime.settings import PREFIX as SAGA
from contrib_django import options
from contrib_django.checks.codes import PREFIX
from contrib_django.installing import followed_of
from contrib_django.project import celery_app

__all__ = ["message"]

_KINDS: Final = {Level.ERROR: checks.Error, Level.WARNING: checks.Warning, Level.INFO: checks.Info}
_NAME: Final = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")


def message(finding: Finding) -> Any:
    """Its sentence as message, its remedy as hint, its code in the id."""
    sentence, hint = (_NAME.sub(_as_here, text) for text in (finding.sentence, finding.remedy))
    return _KINDS[finding.level](sentence, hint=hint, id=PREFIX + finding.code)


def _as_here(found: re.Match[str]) -> str:
    """What Django's settings call a setting of Celery's or ours."""
    name, app = found[0], celery_app()
    option = name.removeprefix(SAGA)
    if name != option and option in NAMES:
        followed = None if app is None else followed_of(app)
        is_alias = option == "database_url" and followed is not None and followed.alias is not None
        return f"DATABASES[{followed.alias!r}]" if followed is not None and is_alias else options.named(option)
    namespace = None if app is None else getattr(app, "namespace", None)
    return f"{namespace}_{name.upper()}" if namespace and name in DEFAULTS else name
