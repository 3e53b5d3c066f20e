"""Options of `CelerySaga` as settings of its app, where the user's own do not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery

from celery_saga.core.asked import shown
from celery_saga.errors import DefinitionError
from celery_saga.runtime.settings import PREFIX, checked

__all__ = ["differing", "real_app", "write_options"]


def real_app(app: Any) -> Celery:
    """The app itself, of a proxy of it too. DefinitionError: it is none; nothing was changed."""
    get = getattr(app, "_get_current_object", None)
    real: object = app if get is None else get()
    if not isinstance(real, Celery):
        raise DefinitionError(f"a Celery app is needed to add celery_saga to, got {shown(real)}; nothing was changed.")
    return real


def write_options(app: Celery, options: Mapping[str, Any]) -> None:
    """Into `app.conf`, below what the user's own settings say; once these are loaded."""
    if not options:
        return

    def write(**_: Any) -> None:
        for name, value in options.items():
            if PREFIX + name not in app.conf:
                app.conf[PREFIX + name] = value  # among the changes, which go along to spawned processes

    if getattr(app, "configured", False):
        write()
    else:
        app.on_after_configure.connect(write, weak=False)


def differing(options: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Options that settings do not say, or otherwise.

    Args:
        options: as `checked` has made them.
        settings: as they were written.
    Raises:
        DefinitionError: one of these settings is out of range.
    """
    return [
        name
        for name, value in options.items()
        if name not in settings or checked({name: settings[name]})[name] != value
    ]
