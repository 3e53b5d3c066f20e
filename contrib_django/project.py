"""Finds the Celery app of the project, as Celery's own guide has it: made in `proj/celery.py`, imported by `proj`."""

from __future__ import annotations

from typing import Any, Final

from celery import Celery
from celery import _state as celery_state

__all__ = ["celery_app", "current", "followed_by", "keep"]

_state: Any = celery_state
_ATTRIBUTE: Final = "_saga_django"
_FALLBACK: Final = "default"
"""The name of the app that Celery makes up where there is none."""
_installed: list[Celery] = []
"""The app that `contrib_django.installing` has added sagas to, the first one."""


def celery_app() -> Celery | None:
    """The app that sagas were added to; before that, the one that they are to be added to; None: there is none.

    Others come and go: a plug-in of pytest makes one of its own the current one.
    """
    found = current()
    if found is not None and followed_by(found) is not None:
        return found
    return _installed[0] if _installed else found


def keep(app: Celery, followed: object) -> None:
    """Keep with an app what was added to it."""
    app.__dict__[_ATTRIBUTE] = followed
    if not _installed:
        _installed.append(app)


def followed_by(app: Celery) -> Any:
    """What was kept with an app; None: nothing."""
    return app.__dict__.get(_ATTRIBUTE)


def current() -> Celery | None:
    """The current Celery app, else the only one there is; None: the project has imported none."""
    for app in (getattr(_state._tls, "current_app", None), _state.default_app):
        if app is not None and app.main != _FALLBACK:
            return app  # type: ignore[no-any-return]
    there = [app for app in _state._get_active_apps() if app.main != _FALLBACK]
    return there[0] if len(there) == 1 else None
