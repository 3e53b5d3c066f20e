"""Sends wake-ups through the app's broker: in order, bounded in time, stopping at the first failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from celery import Celery

from celery_saga.core.orders import StepSpec
from celery_saga.core.records import RunRecord
from celery_saga.engine.ports import Message, RunMessage, StepMessage
from celery_saga.engine.seldom import Seldom
from celery_saga.runtime.line import Line, Ticket
from celery_saga.runtime.messages import envelope_of, prepared, publish, route_of
from celery_saga.runtime.received import RECEIVED, place_of
from celery_saga.runtime.sender import Sender
from celery_saga.runtime.settings import Settings
from celery_saga.runtime.showing.sent import SentEvents

__all__ = ["CeleryPublisher"]

logger = logging.getLogger("celery_saga.publisher")
seldom = Seldom(logger)

RemoteSend = Callable[[Any, Any, StepMessage], bool]
"""Sends a step to a worker without celery_saga: AMQP, producer, message; whether it went out."""


Within = Callable[[RunRecord], AbstractContextManager[object]]


def _nowhere(_run: RunRecord) -> AbstractContextManager[object]:
    return nullcontext()


class CeleryPublisher:
    """The engine's `Publisher` over Celery.

    Args:
        app: whose routes, queues and hooks apply.
        settings: `queue` and `publish_timeout` are used.
        sender: the way to the broker.
        remote: sends steps for workers without celery_saga; None: such steps stay due.
        within: entered around the sending of a message of a run: its place in traces.
    """

    def __init__(
        self,
        app: Celery,
        settings: Settings,
        sender: Sender,
        remote: RemoteSend | None = None,
        *,
        within: Within = _nowhere,
    ) -> None:
        self._app = app
        self._settings = settings
        self._sender = sender
        self._remote = remote
        self._within = within
        self._line = Line("saga-publisher")
        self._sent_events = SentEvents(app, settings)

    def publish(self, messages: Sequence[Message]) -> int:
        """Send in order; how many went out within `saga_publish_timeout` seconds in all.

        One that can never go out, because a router refuses it, is told and counted: it must not hold up the others.
        """
        if not messages:
            return 0
        trouble: list[str] = []
        sent: int = self._line.ask(
            lambda ticket: self._send(ticket, messages, trouble), 0, timeout_s=self._settings.publish_timeout
        )
        if sent < len(messages):
            why = trouble[0] if trouble else f"the broker did not answer within {self._settings.publish_timeout:g} s"
            left = len(messages) - sent
            seldom.warning("%d of %d wake-ups were not sent and stay due: %s", left, len(messages), why)
        return sent

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        """See `Publisher.depth`; this process knows of what its worker has received."""
        depth: int = self._line.ask(
            lambda ticket: self._count(ticket, message, sent_s), -1, timeout_s=self._settings.publish_timeout
        )
        return depth

    def queue_of(self, message: Message) -> str | None:
        """Name of the queue that this one would go to; None where the router names none, or cannot say."""
        return _queue_in(self._route(message))

    def _route(self, message: Message) -> dict[str, Any] | None:
        try:
            return route_of(self._app, self._sender.amqp, envelope_of(self._app, message, self._settings.queue))
        except Exception as error:  # noqa: BLE001  # a router of the user's, say
            logger.debug("the queue of a message cannot be told: %s: %s", type(error).__name__, error)
            return None

    def close(self) -> None:
        """Let the thread end."""
        self._line.close()

    def _send(self, ticket: Ticket, messages: Sequence[Message], trouble: list[str]) -> None:
        try:
            with self._sender.producer() as producer:
                for message in messages:
                    if ticket.abandoned:
                        return
                    with self._within(message.run):
                        is_done = self._send_one(producer, message)
                    if not is_done:
                        return
                    ticket.answer += 1
                self._sent_events.send(producer, [each.run for each in messages if _is_first(each)])
        except Exception as error:  # noqa: BLE001  # the broker, a router or a hook: the wake-up stays due
            trouble.append(f"{type(error).__name__}: {error}")

    def _send_one(self, producer: Any, message: Message) -> bool:
        if isinstance(message, StepMessage) and StepSpec.from_text(message.step.spec_text).remote:
            return self._remote is not None and self._remote(self._sender.amqp, producer, message)
        amqp = self._sender.amqp
        try:
            envelope = envelope_of(self._app, message, self._settings.queue)
            ready = prepared(self._app, amqp, envelope)
        except Exception as error:  # noqa: BLE001  # a router of the user's, say
            logger.error("%s cannot be sent and stays due: %s: %s", _named(message), type(error).__name__, error)
            return True
        publish(amqp, producer, envelope, *ready)
        return True

    def _count(self, ticket: Ticket, message: Message, sent_s: float | None) -> None:
        route = self._route(message)
        if route is not None and sent_s is not None and RECEIVED.is_overtaken(place_of(route), time.time() - sent_s):
            ticket.answer = 0
            return
        name = _queue_in(route)
        if name is None:
            return
        try:
            with self._sender.producer() as producer:
                ticket.answer = _depth(producer.connection, name)
        except Exception as error:  # noqa: BLE001  # as above
            logger.debug("the depth of a queue cannot be asked: %s: %s", type(error).__name__, error)


def _queue_in(route: dict[str, Any] | None) -> str | None:
    queue = None if route is None else route.get("queue")
    name = getattr(queue, "name", queue)
    return None if name is None else str(name)


def _is_first(message: Message) -> bool:
    """Nobody has decided the run yet."""
    return isinstance(message, RunMessage) and message.part is None and message.run.started_at is None


def _named(message: Message) -> str:
    run = f"run {message.run.id}"
    return f"step {message.step.key!r} of {run}" if isinstance(message, StepMessage) else run


def _depth(connection: Any, queue: str) -> int:
    channel = connection.channel()  # thrown away: NOT_FOUND closes it
    try:
        if connection.transport.driver_type == "redis":
            # A passive declare looks for the key without `global_keyprefix`, so under a prefix it finds no queue.
            return int(channel._size(queue))
        return int(channel.queue_declare(queue, passive=True).message_count)
    except connection.channel_errors as error:
        if getattr(error, "code", None) == 404 or "NOT_FOUND" in str(error) or "404" in str(error):
            return 0
        raise
    finally:
        try:
            channel.close()
        except Exception as error:  # noqa: BLE001  # closed by the server already
            logger.debug("closing a channel: %s", error)
