"""Puts services together: for whoever asks in a process, and for the sweeper's thread alone."""

from __future__ import annotations

from celery import Celery

from celery_saga.core.lifecycle import Purpose
from celery_saga.engine.ports import Publisher
from celery_saga.runtime.announcer import Announcer
from celery_saga.runtime.eager import EagerPublisher
from celery_saga.runtime.inline_choice import InlineChoice
from celery_saga.runtime.publisher import CeleryPublisher
from celery_saga.runtime.relay import Relay
from celery_saga.runtime.remote import RemoteSender
from celery_saga.runtime.results import ResultMirror
from celery_saga.runtime.sender import OwnSender, PooledSender
from celery_saga.runtime.services import Services
from celery_saga.runtime.showing.mirror import Reminder, TaskMirror
from celery_saga.runtime.showing.stream import Stream
from celery_saga.runtime.showing.workers import Workers

__all__ = ["mirror_of", "process_services", "relays_of", "reminder_of", "sweeper_services"]

_SWEEPER_PATIENCE_S = 1.0
_REMIND_SWEEPS = 30


def process_services(app: Celery) -> Services:
    """For clients and executing processes: through the app's producer pool, or eager."""

    def publisher(services: Services) -> Publisher:
        if services.eager:
            return EagerPublisher(services)
        remote = RemoteSender(services)
        return CeleryPublisher(app, services.settings, PooledSender(app), remote, within=services.telemetry.within)

    return Services(app, publisher, takes_inline=InlineChoice)


def sweeper_services(app: Celery, worker_name: str | None = None) -> Services:
    """For a sweeper's thread: nothing shared with the process around it, and little patience.

    Args:
        worker_name: of the worker in whose main process it is.
    """

    def publisher(services: Services) -> Publisher:
        remote = RemoteSender(services)
        return CeleryPublisher(app, services.settings, OwnSender(app), remote, within=services.telemetry.within)

    services = Services(app, publisher, patience_s=_SWEEPER_PATIENCE_S)
    services.worker_name = worker_name
    return services


def relays_of(services: Services) -> list[Relay]:
    """What empties the outbox, by the settings; for one thread."""
    app, store, settings = services.app, services.store, services.settings
    relays: list[Relay] = []
    if settings.events:
        relays.append(Relay(store, Purpose.EVENT, Announcer(app, settings, store)))
    if settings.publish_results:
        relays.append(Relay(store, Purpose.RESULT, ResultMirror(app, store, timeout_s=settings.publish_timeout)))
    if settings.send_events:
        relays.append(Relay(store, Purpose.TASK, mirror_of(services)))
    return relays


def mirror_of(services: Services) -> TaskMirror:
    """What shows runs in Celery's event stream; for one thread."""
    app, settings = services.app, services.settings
    workers = Workers(app, services.worker_name)
    stream = Stream(app, timeout_s=settings.publish_timeout)
    return TaskMirror(services.store, stream, workers, expose=settings.expose_args)


def reminder_of(services: Services) -> Reminder | None:
    """What tells Flower once more of what has ended; None: Flower is told nothing."""
    settings, registry = services.settings, services.registry
    if not settings.send_events:
        return None
    every_s = _REMIND_SWEEPS * settings.sweep_interval
    sagas = lambda: sorted({name for name, _ in registry.known()})  # noqa: E731
    return Reminder(services.store, mirror_of(services), sagas, every_s=every_s)
