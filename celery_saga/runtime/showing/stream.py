"""Sends events over a connection of its own, in a thread of its own: whoever listens must hold nobody up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.events.event import get_exchange

from celery_saga.runtime.line import Line, Ticket
from celery_saga.runtime.sender import OwnSender

__all__ = ["Stream", "put"]

logger = logging.getLogger("celery_saga.outbox")

_AT_ONCE = 200


def put(app: Celery, producer: Any, told: Sequence[dict[str, Any]], hostname: str) -> None:
    """Put events on the exchange of Celery's event stream, as Celery's own senders do. Raises what the broker raises.

    No queue is declared: where nobody listens, they are gone.
    """
    exchange = get_exchange(producer.connection, name=app.conf.event_exchange)
    for at in range(0, len(told), _AT_ONCE):
        producer.publish(
            list(told[at : at + _AT_ONCE]),
            routing_key="task.multi",
            exchange=exchange.name,
            declare=[exchange],
            serializer=app.conf.event_serializer,
            headers={"hostname": hostname},
            delivery_mode=1,
            retry=False,
        )


class Stream:
    """The event stream of an app.

    Args:
        timeout_s: how long a call may take.
    """

    def __init__(self, app: Celery, *, timeout_s: float) -> None:
        self._app, self._timeout_s = app, timeout_s
        self._sender = OwnSender(app)
        self._line = Line("saga-task-events")
        self.trouble = ""
        """Why the last call sent nothing, or not all; empty where it did, or where there was no answer in time."""

    def send(self, told: Sequence[dict[str, Any]], hostname: str) -> bool:
        """Send in order; whether all went out. Never raises because of the broker."""
        self.trouble = ""
        if not told:
            return True
        return bool(self._line.ask(lambda ticket: self._send(ticket, told, hostname), False, timeout_s=self._timeout_s))

    def close(self) -> None:
        """Give up connection and thread."""
        self._line.ask(lambda _: self._sender.close(), None, timeout_s=1.0)
        self._line.close()

    def _send(self, ticket: Ticket, told: Sequence[dict[str, Any]], hostname: str) -> None:
        try:
            with self._sender.producer() as producer:
                put(self._app, producer, told, hostname)
            ticket.answer = True
        except Exception as error:  # noqa: BLE001  # of the broker, whichever: who asked knows that they are not sent
            self.trouble = f"{type(error).__name__}: {error}"
