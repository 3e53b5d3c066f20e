"""Tells a coordinating process, with each message, what only the worker's main process knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from celery import Celery
from celery.worker.strategy import default

from celery_saga.runtime.names import HEADER
from celery_saga.runtime.received import RECEIVED

__all__ = ["WORKER", "coordinate_strategy"]

WORKER: Final = "celery_saga_worker"
"""The header that is added to a coordinate message on its way to the pool."""


def coordinate_strategy(task: Any, app: Celery, consumer: Any, **options: Any) -> Callable[..., Any]:
    """Celery's own strategy, with a word about the worker added to each message.

    `events`: somebody listens to its task events, which may be switched on and off at any time; `limits_s`: its pool's
    time limits, which may come from the command line.
    """
    handle: Callable[..., Any] = default(task, app, consumer, **options)

    def handler(message: Any, payload: Any, ack: Any, reject: Any, callbacks: Any, **kwargs: Any) -> Any:
        RECEIVED.note(message.headers.get(HEADER))
        message.headers[WORKER] = {"events": _sends_events(consumer), "limits_s": _limits_s(consumer)}
        return handle(message, payload, ack, reject, callbacks, **kwargs)

    return handler


def _sends_events(consumer: Any) -> bool:
    eventer = getattr(consumer, "event_dispatcher", None)
    return bool(eventer and eventer.enabled and (not eventer.groups or "task" in eventer.groups))


def _limits_s(consumer: Any) -> list[float]:
    worker = getattr(consumer, "controller", None)
    limits = (getattr(worker, "time_limit", None), getattr(worker, "soft_time_limit", None))
    return [float(each) for each in limits if each]
