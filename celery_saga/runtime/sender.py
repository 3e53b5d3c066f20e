"""The two ways to a broker: the app's own pool, and a connection of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

from celery import Celery
from celery.utils.imports import instantiate
from kombu import Connection

__all__ = ["OwnSender", "PooledSender", "Sender"]

_CONNECT_TIMEOUT_S = 4.0


class Sender(Protocol):
    """Lends a producer and the AMQP object whose routes and queues go with it."""

    @property
    def amqp(self) -> Any:
        """The app's `AMQP`, or one like it."""

    def producer(self) -> AbstractContextManager[Any]:
        """A kombu producer, for the block."""


class PooledSender:
    """Publishes as the app's own `apply_async` does. For clients and pool children."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    @property
    def amqp(self) -> Any:
        """The app's own."""
        return self._app.amqp

    @contextmanager
    def producer(self) -> Iterator[Any]:
        """One of the app's pool."""
        with self._app.producer_pool.acquire(block=True) as producer:
            yield producer


class OwnSender:
    """Publishes over a connection and an `AMQP` of its own. For a worker's main process.

    There the app's pool must stay untouched: each child forked later would close the inherited socket, and before
    Celery 5.7 publishing to a queue's name makes the worker consume that queue after its next reconnect.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._amqp: Any = None
        self._connection: Connection | None = None
        self._producer: Any = None

    @property
    def amqp(self) -> Any:
        """Made at first use."""
        if self._amqp is None:
            str_or_class: Any = self._app.amqp_cls
            self._amqp = instantiate(str_or_class, app=self._app)
        return self._amqp

    @contextmanager
    def producer(self) -> Iterator[Any]:
        """The one producer; after any error the next block gets a new connection."""
        if self._producer is None:
            self._connection = self._app.connection_for_write(connect_timeout=_CONNECT_TIMEOUT_S)
            self._producer = self.amqp.Producer(self._connection, auto_declare=False)
        try:
            yield self._producer
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the connection up."""
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.release()
