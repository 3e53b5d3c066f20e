"""Schedules of an app: what an operator asks of them, what its settings say, and the task that a beat wakes them by."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.utils.imports import symbol_by_name

from celery_saga.client.schedules import ScheduleHandle
from celery_saga.core import asked
from celery_saga.core.schedules import ScheduleRecord, Wanted, unnamed
from celery_saga.definition.saga import Saga
from celery_saga.definition.scheduling import wanted
from celery_saga.engine.schedules import ScheduleBook
from celery_saga.engine.seldom import Seldom
from celery_saga.errors import (
    DefinitionError,
    SagaError,
    ScheduleNotFound,
    SchemaOutdated,
    StoreUnavailable,
    UnknownSaga,
)
from celery_saga.runtime.coordinator import OPTIONS
from celery_saga.runtime.names import FIRE
from celery_saga.runtime.plain_task import add_own
from celery_saga.runtime.reference import is_name
from celery_saga.runtime.services import Services, services_of

if TYPE_CHECKING:
    from celery_saga.definition.registry import Registry

__all__ = ["Scheduling", "Synced", "refused", "register", "sync"]

logger = logging.getLogger("celery_saga.schedules")
seldom = Seldom(logger)


class Scheduling:
    """The half of `CelerySaga` that knows schedules."""

    @property
    def services(self) -> Services:
        """Store, publisher and engine of this process."""
        raise NotImplementedError

    def schedules(self) -> list[ScheduleRecord]:
        """All schedules, by saga and id: pattern, next and last nominal time, last run, whether paused, who made it."""
        return self.services.engine.schedules.all()

    def find_schedule(self, saga: Saga[Any, Any] | str, id: str) -> ScheduleHandle:  # noqa: A002 - as of Saga.schedule
        """A handle of a schedule that is there.

        Args:
            saga: the saga, or its name.
            id: as of `Saga.schedule`.
        Raises:
            ScheduleNotFound: there is none.
            InvalidPayload: no saga or no id; nothing was read.
        """
        book = self.services.engine.schedules
        found = book.get(*_place_of("find_schedule()", saga, id, "nothing was read"))
        return ScheduleHandle(book, found.saga, found.id)

    def unschedule(self, saga: Saga[Any, Any] | str, id: str) -> bool:  # noqa: A002 - as of Saga.schedule
        """Remove a schedule, with the log of its fires; its runs are left alone.

        Returns:
            False: there was none.
        Raises:
            InvalidPayload: no saga or no id; nothing was removed.
        """
        return self.services.engine.schedules.remove(*_place_of("unschedule()", saga, id, "nothing was removed"))

    def sync_schedules(self) -> Synced:
        """Make the stored schedules those of the setting `saga_schedules`, as each worker does when it starts."""
        return sync(self.services)


def _place_of(call: str, saga: object, id_: object, left: str) -> tuple[str, str]:
    """Saga and id of a schedule, as somebody says them."""
    name = saga.name if isinstance(saga, Saga) else saga
    return asked.text(call, "saga", name, left), asked.text(call, "id", id_, left)


class Synced:
    """What a sync of the settings has done; each list has (saga, id) or texts.

    Args:
        put: schedules that were added or changed.
        removed: schedules that the settings name no more.
        refused: what is wrong with the others, by the name in the settings; they were left as they were.
    """

    def __init__(self, put: list[tuple[str, str]], removed: list[tuple[str, str]], refused: dict[str, str]) -> None:
        self.put = put
        self.removed = removed
        self.refused = refused


def sync(services: Services) -> Synced:
    """Add and change what `saga_schedules` names, and remove what it named before and names no more.

    What code or people have made is left alone, unless the settings have a schedule of the same saga and id.

    Raises:
        StoreUnavailable, SchemaOutdated: the database cannot be used; it may be done in part.
    """
    book = services.engine.schedules
    done = Synced([], [], {})
    named: list[tuple[str, str]] = []
    for name, said in services.settings.schedules.items():
        try:
            record, changed = _put(services.registry, book, name, said, services.settings.max_payload_bytes)
        except (StoreUnavailable, SchemaOutdated):
            raise
        except SagaError as error:
            done.refused[name] = f"{error.code}: {error}"
            logger.error("saga_schedules[%r] is left as it was: %s", name, error)
            continue
        named.append((record.saga, record.id))
        if changed:
            done.put.append((record.saga, record.id))
    for gone in unnamed(book.all(), named, book.owner):
        # One that is named, but wrongly, is left as it was.
        if gone.id not in done.refused:
            book.remove(gone.saga, gone.id)
            done.removed.append((gone.saga, gone.id))
    if done.put or done.removed:
        logger.info("schedules of the settings: %d written, %d removed", len(done.put), len(done.removed))
    return done


def refused(services: Services) -> dict[str, str]:
    """What is wrong with schedules of the settings, by their names there; asks no server and writes nothing."""
    found: dict[str, str] = {}
    for name, said in services.settings.schedules.items():
        try:
            _wanted(services.registry, services.engine.schedules, name, said, services.settings.max_payload_bytes)
        except SagaError as error:
            found[name] = f"{error.code}: {error}"
    return found


def _put(
    registry: Registry, book: ScheduleBook, name: str, said: Mapping[str, Any], limit_bytes: int
) -> tuple[ScheduleRecord, bool]:
    return book.put(_wanted(registry, book, name, said, limit_bytes))


def _wanted(registry: Registry, book: ScheduleBook, name: str, said: Mapping[str, Any], limit_bytes: int) -> Wanted:
    saga = _named(registry, said["saga"])
    words = {key: value for key, value in said.items() if key != "saga"}
    return wanted(saga, name, words, book, limit_bytes=limit_bytes, source="settings")


def _named(registry: Registry, reference: Any) -> Saga[Any, Any]:
    """The saga that the settings mean: itself, its name, or its dotted path."""
    found: Any = registry.latest(reference) if isinstance(reference, str) else reference
    if found is None and isinstance(reference, str) and ("." in reference or ":" in reference):
        try:
            found = symbol_by_name(reference)
        except (ImportError, AttributeError, ValueError) as error:
            raise DefinitionError(f"the saga {reference!r} cannot be loaded: {error}; nothing was written") from error
    if not isinstance(found, Saga):
        raise UnknownSaga(f"the app knows no saga {reference!r}; nothing was written. Give its name or dotted path")
    return found


def register(app: Celery) -> None:
    """Add the task `celery_saga.fire` to an app that may not be configured yet."""

    def fire(self: Any, saga: str, schedule: str, **_: Any) -> bool:
        """Fire a schedule if it is due; whether it was. What the message says of when is not asked."""
        if not (is_name(saga) and is_name(schedule)):
            seldom.warning("a message for %s names no schedule; it was dropped", FIRE)
            return False
        try:
            return services_of(self.app).engine.schedules.wake(saga, schedule)
        except ScheduleNotFound:
            logger.info("schedule %r of saga %r is gone; nothing was fired", schedule, saga)
        except StoreUnavailable as error:
            seldom.warning("schedule %r of saga %r was not looked at, and stays due: %s", schedule, saga, error)
        return False

    add_own(app, FIRE, fire, **OPTIONS)
