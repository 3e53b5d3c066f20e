"""Publishes messages that the broker says it has: persistent, confirmed where it can, bounded in time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from celery import Celery
from kombu import Connection, Exchange, Queue

from celery_saga.runtime.line import Line, Ticket

__all__ = ["Confirmed", "Parcel"]

_CONNECT_TIMEOUT_S = 4.0
_PERSISTENT = 2


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message of plain JSON.

    Args:
        properties: of the message, like `message_id`.
    """

    body: str
    routing_key: str
    properties: dict[str, Any] = field(default_factory=dict)


class Confirmed:
    """A broker connection of its own, used in a thread of its own, so that a broker that is stuck holds nobody up.

    Args:
        app: whose broker it is.
        exchange: declared before the first message.
        queue: declared and bound there too; None: listeners bring their own.
        name: of the thread.
    """

    def __init__(self, app: Celery, exchange: Exchange, queue: Queue | None = None, *, name: str) -> None:
        self._app, self._exchange, self._queue = app, exchange, queue
        self._line = Line(name)
        self._connection: Connection | None = None
        self._producer: Any = None
        self.trouble = ""
        """Why the last call did not publish all; empty where it did, or where there was no answer in time."""

    def publish(self, parcels: Sequence[Parcel], *, timeout_s: float) -> int:
        """Publish in order; how many, counted from the first, the broker has. Never raises because of the broker."""
        self.trouble = ""
        sent: int = self._line.ask(lambda ticket: self._send(ticket, parcels), 0, timeout_s=timeout_s)
        return sent

    def close(self) -> None:
        """Give up connection and thread."""
        self._line.ask(lambda _: self._disconnect(), None, timeout_s=1.0)
        self._line.close()

    def _send(self, ticket: Ticket, parcels: Sequence[Parcel]) -> None:
        try:
            for parcel in parcels:
                if self._producer is None:
                    self._connect()
                if ticket.abandoned:  # who asked will ask again: what is sent now would come twice
                    return
                self._one(parcel)
                ticket.answer += 1
        except Exception as error:  # noqa: BLE001  # of the broker, whichever: who asked knows what was not sent
            self.trouble = f"{type(error).__name__}: {error}"
            self._disconnect()

    def _one(self, parcel: Parcel) -> None:
        self._producer.publish(
            parcel.body,
            routing_key=parcel.routing_key,
            content_type="application/json",
            content_encoding="utf-8",
            delivery_mode=_PERSISTENT,
            retry=False,
            **parcel.properties,
        )

    def _connect(self) -> None:
        self._connection = self._app.connection_for_write(connect_timeout=_CONNECT_TIMEOUT_S)
        if self._connection.transport.driver_type == "amqp":
            # Read by the transport when it connects: the broker says of each message that it is safe.
            self._connection.transport_options = {**(self._connection.transport_options or {}), "confirm_publish": True}
        self._producer = self._connection.Producer(exchange=self._exchange, auto_declare=True)
        if self._queue is not None:
            self._queue(self._connection.default_channel).declare()

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.release()
