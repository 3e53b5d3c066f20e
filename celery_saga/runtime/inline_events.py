"""Task events of inline steps: what the worker's main process says of steps that come as messages."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import Celery
from celery.events.event import Event, get_exchange
from celery.utils.saferepr import saferepr
from celery.utils.time import utcoffset

from celery_saga.runtime.line import Line
from celery_saga.runtime.sender import Sender
from celery_saga.runtime.showing.masked import masked

__all__ = ["InlineEvents"]

logger = logging.getLogger("celery_saga.inline")

_FLUSH_S = 0.25
_MOST_AT_ONCE = 100
_line = Line("saga-events")


class InlineEvents:
    """Events of one delivery, sent in batches: before its first step, then at most four times a second, and at its end.

    One that the broker does not take within the time is dropped, as are all that follow: they are for onlookers.

    Args:
        hostname: the worker's name, so that Flower shows the steps under it.
        timeout_s: how long a batch may hold the delivery up, in seconds.
        expose: what steps return, and the texts of their errors, are to be seen.
    """

    def __init__(self, app: Celery, sender: Sender, hostname: str, *, pid: int, timeout_s: float, expose: bool) -> None:
        self._app = app
        self._sender = sender
        self._hostname = hostname
        self._pid = pid
        self._timeout_s = timeout_s
        self._expose = expose
        self._buffer: list[Any] = []
        self._flushed_s: float | None = None
        self._is_broken = False

    def begun(self, request: dict[str, Any]) -> None:
        """A step was received, and starts."""
        names = ("root_id", "parent_id", "retries", "eta", "expires")
        said = {name: request[name] for name in names}
        said |= {"name": request["task"], "args": request["argsrepr"], "kwargs": request["kwargsrepr"]}
        self._add("task-received", request, **said)
        self._add("task-started", request)
        if self._flushed_s is None or time.monotonic() - self._flushed_s >= _FLUSH_S:
            self.flush()

    def ended(self, request: dict[str, Any], answer: Any) -> None:
        """A step has ended, with this answer of its tracer."""
        trouble = answer.info
        if trouble is None:
            self._add("task-succeeded", request, result=answer.retstr, runtime=answer.runtime)
        elif trouble.state in ("RETRY", "FAILURE"):
            exc = getattr(trouble.retval, "exc", None) if trouble.state == "RETRY" else trouble.retval
            name = "task-retried" if trouble.state == "RETRY" else "task-failed"
            traceback = str(getattr(answer.retval, "traceback", "") or "")
            self._add(name, request, exception=saferepr(exc), traceback=traceback)

    def flush(self) -> None:
        """Send what has gathered; never raises."""
        batch, self._buffer, self._flushed_s = self._buffer, [], time.monotonic()
        if not batch or self._is_broken:
            return
        if not _line.ask(lambda ticket: self._send(ticket, batch), False, timeout_s=self._timeout_s):
            self._is_broken = True
            logger.debug("task events of inline steps were dropped: the broker did not take them")

    def _add(self, event: str, request: dict[str, Any], /, **fields: Any) -> None:
        app: Any = self._app
        fields = fields if self._expose else masked(fields)
        clock = app.clock.forward()
        said: dict[str, Any] = {"hostname": self._hostname, "utcoffset": utcoffset(), "pid": self._pid, "clock": clock}
        self._buffer.append(Event(event, **said, uuid=request["id"], **fields))
        if len(self._buffer) >= _MOST_AT_ONCE:
            self.flush()

    def _send(self, ticket: Any, batch: list[Any]) -> None:
        conf = self._app.conf
        try:
            with self._sender.producer() as producer:
                exchange = get_exchange(producer.connection, name=conf.event_exchange)
                producer.publish(
                    batch,
                    routing_key="task.multi",
                    exchange=exchange.name,
                    declare=[exchange],
                    serializer=conf.event_serializer,
                    headers={"hostname": self._hostname},
                    delivery_mode=1,
                )
            ticket.answer = True
        except Exception as error:  # noqa: BLE001  # the broker is down, say: then nobody looks on either
            logger.debug("task events of inline steps: %s: %s", type(error).__name__, error)
