"""The project's sagas, as the admin asks for them."""

from __future__ import annotations

from typing import Any

from celery_saga.client import binding
from celery_saga.definition.saga import Saga
from celery_saga.runtime.app import CelerySaga

__all__ = ["known_saga", "known_sagas", "opened", "sagas"]


def sagas() -> CelerySaga:
    """`app.saga` of the project.

    Raises:
        DefinitionError: no Celery app of this process has celery_saga.
    """
    found: Any = binding.current()
    assert isinstance(found, CelerySaga)
    return found


def known_sagas() -> list[Saga[Any, Any]]:
    """The sagas that the project knows, the newest version of each, by name."""
    found = sagas()
    if not len(found.registry):  # as in a web process, which has not imported the tasks
        found.app.loader.import_default_modules()
    newest: dict[str, Saga[Any, Any]] = {}
    for each in found.registry:
        there = newest.get(each.name)
        if there is None or there.version < each.version:
            newest[each.name] = each
    return [newest[name] for name in sorted(newest) if not name.startswith("celery_saga")]


def known_saga(name: str, version: int | None = None) -> Saga[Any, Any] | None:
    """A saga; None: the project does not know it.

    Args:
        version: None: the newest.
    """
    registry = sagas().registry
    if registry.latest(name) is None:
        sagas().app.loader.import_default_modules()
    return registry.latest(name) if version is None else registry.get(name, version)


def opened(text: str | None) -> str | None:
    """A stored text as it was given, where a codec has closed it."""
    return sagas().services.store.vault.opened(text) if text is not None and text[:1] == "!" else text
