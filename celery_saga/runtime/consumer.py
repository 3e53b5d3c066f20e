"""Takes signals and starts from a queue: acknowledged after the commit, refused into a dead-letter exchange."""

from __future__ import annotations

import base64
import json
import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu import Connection, Consumer, Exchange, Queue

from celery_saga.engine.seldom import Seldom
from celery_saga.errors import SagaError, SchemaOutdated, StoreUnavailable
from celery_saga.runtime.app import CelerySaga
from celery_saga.runtime.confirmed import Confirmed, Parcel
from celery_saga.runtime.inbox import take
from celery_saga.runtime.options import real_app

__all__ = ["InboxConsumer", "run_consumer"]

logger = logging.getLogger("celery_saga.inbox")
seldom = Seldom(logger)

_CONNECT_TIMEOUT_S = 4.0
_HEARTBEAT_S = 20.0
_LOOK_S = 0.5  # how soon it notices that it is to stop
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_REFUSE_TIMEOUT_S = 10.0
_LONGEST_MESSAGE = 2000  # characters


class InboxConsumer:
    """Does one message after the other until it is stopped. Never raises because of a message, broker or database.

    Args:
        app: with celery_saga added.
        prefetch: how many messages it may hold, unacknowledged.
        pause: waits so many seconds where there is no connection; returns early when it is to stop.
    """

    def __init__(self, app: Celery, *, prefetch: int = 16, pause: Callable[[float], object] | None = None) -> None:
        self._saga = CelerySaga.of(app)
        self._app = app
        self._prefetch = prefetch
        self._stop = threading.Event()
        self._pause = pause or self._stop.wait
        self._waiting: deque[Any] = deque()
        name = self._saga.services.settings.inbox
        self._queue = Queue(name, Exchange(name, type="direct", durable=True), routing_key=name, durable=True)
        dead = f"{name}.dead"
        exchange = Exchange(dead, type="direct", durable=True)
        self._dead_key = dead
        self._dead = Confirmed(
            app, exchange, Queue(dead, exchange, routing_key=dead, durable=True), name="saga-dead-letters"
        )

    def stop(self) -> None:
        """End after the message that it is doing."""
        self._stop.set()

    def run(self) -> None:
        """Consume until `stop`; connects again whenever the connection is lost."""
        pause_s = _FIRST_PAUSE_S
        try:
            while not self._stop.is_set():
                try:
                    with self._connected() as connection:
                        pause_s = _FIRST_PAUSE_S
                        self._serve(connection)
                except Exception as error:  # noqa: BLE001  # of the broker: what was not acknowledged comes again
                    if self._stop.is_set():
                        return
                    seldom.warning(
                        "the inbox has no broker now, and goes on trying: %s: %s", type(error).__name__, error
                    )
                    self._pause(pause_s)
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        finally:
            self._dead.close()

    # -- the broker --------------------------------------------------------------------------------------------
    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        self._waiting.clear()
        with self._app.connection_for_read(connect_timeout=_CONNECT_TIMEOUT_S, heartbeat=_HEARTBEAT_S) as connection:
            connection.connect()
            channel = connection.channel()
            consumer = Consumer(channel, [self._queue], on_message=self._waiting.append, prefetch_count=self._prefetch)
            with consumer:
                logger.info("consuming %s", self._queue.name)
                yield connection

    def _serve(self, connection: Connection) -> None:
        while not self._stop.is_set():
            if self._waiting:
                self._do(connection, self._waiting.popleft())
            else:
                self._listen(connection, _LOOK_S)

    def _listen(self, connection: Connection, timeout_s: float) -> None:
        """Take in what comes, and keep the connection alive, for at most so long."""
        try:
            connection.drain_events(timeout=timeout_s)
        except TimeoutError:
            pass
        except (*connection.connection_errors, *connection.channel_errors):
            raise
        except Exception:
            # On Redis anybody can put anything into the list: kombu has taken it out, and cannot read it.
            logger.exception("something in the queue %s was no message, and is gone", self._queue.name)
        if connection.supports_heartbeats and connection.heartbeat:
            connection.heartbeat_check()

    # -- a message ---------------------------------------------------------------------------------------------
    def _do(self, connection: Connection, message: Any) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._try(message):
            self._hold(connection, pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            if self._stop.is_set():
                return  # not acknowledged: it comes again
        message.ack()

    def _hold(self, connection: Connection, pause_s: float) -> None:
        end_s = time.monotonic() + pause_s
        while (left_s := end_s - time.monotonic()) > 0 and not self._stop.is_set():
            self._listen(connection, min(left_s, _LOOK_S))

    def _try(self, message: Any) -> bool:
        """Whether the message was done with: committed, or refused and dead-lettered."""
        try:
            done = take(self._saga, message.body)
        except (StoreUnavailable, SchemaOutdated) as error:
            seldom.warning("the inbox waits for the database: %s", error)
            return False
        except SagaError as error:
            return self._refuse(message, error.code, error.message)
        except Exception:
            logger.exception("a message could not be done, because of an error of this program or of a saga's")
            return self._refuse(message, "INTERNAL", "the message could not be done; the consumer's log says why")
        logger.debug("run %s: %s", done.run_id, done.what)
        return True

    def _refuse(self, message: Any, code: str, why: str) -> bool:
        logger.warning("message %s was refused: %s: %s", _name_of(message), code, why[:_LONGEST_MESSAGE])
        document = {"code": code, "message": why[:_LONGEST_MESSAGE], **_original(message.body)}
        parcel = Parcel(json.dumps(document), self._dead_key, {"headers": {"saga-code": code}})
        if self._dead.publish([parcel], timeout_s=_REFUSE_TIMEOUT_S) == 1:
            return True
        seldom.warning("a refused message waits, it cannot be put aside: %s", self._dead.trouble or "no answer")
        return False


def _name_of(message: Any) -> str:
    """Which message it is, for a log: the id that its sender gave, or as the broker counts it; none of its body."""
    found = getattr(message, "properties", {}).get("message_id")
    return repr(str(found)[:200]) if found else f"number {message.delivery_tag} (it has no message_id)"


def _original(body: Any) -> dict[str, str]:
    """The body as it came: as text where it is any, else in base64."""
    if isinstance(body, str):
        return {"body": body}
    raw = bytes(body)
    try:
        return {"body": raw.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(raw).decode()}


def run_consumer(app: Celery, *, prefetch: int = 16) -> None:
    """Consume in this process until SIGTERM or SIGINT.

    Raises:
        DefinitionError: celery_saga was not added to the app, or has no database.
    """
    consumer = InboxConsumer(real_app(app), prefetch=prefetch)

    def stop(*_: object) -> None:
        consumer.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        consumer.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
