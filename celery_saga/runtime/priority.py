"""The priority of a run as the broker understands it: a hint, no more; who is first is decided in the tables."""

from __future__ import annotations

from typing import Any

from celery_saga.core.records import RunRecord

__all__ = ["Turned", "hint_of", "is_turned"]

_HIGHEST = 9
"""RabbitMQ's queues have as many levels as `x-max-priority` says, kombu's others ten."""


def hint_of(run: RunRecord) -> dict[str, int]:
    """The option that every message of the run carries; nothing where the run has no priority of its own."""
    return {"priority": min(run.priority, _HIGHEST)} if run.priority else {}


def is_turned(connection: Any) -> bool:
    """On this broker a lower number is served first, and a message without one before all others."""
    return bool(connection.transport.driver_type == "redis")


class Turned:
    """A producer for brokers where lower is first: hooks see the run's priority, the wire gets what means the same.

    Nothing goes before a message without priority there, so neither does a run with one, unless
    `task_default_priority` leaves room.

    Args:
        producer: of kombu.
        default: `task_default_priority`; None: not set.
    """

    def __init__(self, producer: Any, default: int | None) -> None:
        self._producer = producer
        self._default = default or 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def publish(self, *args: Any, priority: int | None = None, **options: Any) -> Any:
        """As of the producer."""
        turned = None if priority is None else max(0, self._default - priority)
        return self._producer.publish(*args, priority=turned, **options)
