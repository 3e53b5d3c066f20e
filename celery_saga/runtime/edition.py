"""Settings that a framework may change while a process runs, like the database of its tests."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery

__all__ = ["edition_of", "follow"]

_ATTRIBUTE = "_saga_edition"


def follow(app: Celery, edition: Callable[[], int]) -> None:
    """Let an app's settings be what a framework says at each moment.

    Args:
        edition: brings the app's configuration up to date and answers a number, another one after each change; called
            before each use of the settings, by any thread, so it must be quick.
    """
    app.__dict__[_ATTRIBUTE] = edition


def edition_of(app: Celery) -> int:
    """Bring the app's settings up to date; which edition they are, 0 where nobody changes them.

    Raises:
        DefinitionError: the framework's own settings cannot be followed.
    """
    edition: Callable[[], int] | None = app.__dict__.get(_ATTRIBUTE)
    return 0 if edition is None else edition()
