"""Asks RabbitMQ about queues: whether they exist, of which type, and who consumes them."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.utils.imports import instantiate

from celery_saga.runtime.guard.facts import QueueFacts

__all__ = ["ask_queues"]


def ask_queues(app: Celery, names: list[str], found: list[QueueFacts], *, timeout_s: float) -> None:
    """Append one `QueueFacts` to `found` for each of `names`, in their order.

    No queue is created: one that does not exist is not declared.
    """
    # A private AMQP, because looking a queue up may add it to those that a worker consumes.
    amqp_class: Any = app.amqp_cls  # a class or the path of one
    declared: Any = instantiate(amqp_class, app=app).queues
    limits = {"read_timeout": timeout_s, "write_timeout": timeout_s}
    with app.connection_for_write(connect_timeout=timeout_s, transport_options=limits) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        for name in names:
            found.append(_ask_queue(connection, name, _configured(declared, name)))


def _configured(declared: Any, name: str) -> Any:
    try:
        return declared[name]
    except KeyError:  # strict queues: the routing checks tell
        return None


def _ask_queue(connection: Any, name: str, queue: Any) -> QueueFacts:
    arguments = (getattr(queue, "queue_arguments", None) or {}) if queue is not None else {}
    quorum = arguments.get("x-queue-type") == "quorum"
    try:
        with connection.channel() as channel:
            answer = channel.queue_declare(queue=name, passive=True)
    except connection.channel_errors as error:
        return QueueFacts(
            name=name,
            exists=False,
            consumers=0,
            quorum=quorum,
            unasked=None if _code(error) == 404 else _text(error),
        )
    conflict = None if queue is None or queue.no_declare else _conflict(connection, queue)
    # "... received 'classic' but current is 'quorum'": the server names the type it has.
    if conflict and "x-queue-type" in conflict:
        quorum = "quorum" in conflict.rpartition("current")[2]
    return QueueFacts(
        name=name,
        exists=True,
        consumers=int(answer.consumer_count),
        quorum=quorum,
        conflict=conflict,
    )


def _conflict(connection: Any, queue: Any) -> str | None:
    # A passive declaration compares nothing. Declaring a queue that exists changes nothing
    # and compares its arguments; it is what each worker does when it starts.
    try:
        with connection.channel() as channel:
            queue.bind(channel).queue_declare()
    except connection.channel_errors as error:
        return _text(error) if _code(error) == 406 else None
    return None


def _code(error: Any) -> int:
    return int(getattr(error, "reply_code", None) or getattr(error, "code", 0) or 0)


def _text(error: Any) -> str:
    return " ".join(str(getattr(error, "reply_text", None) or error).split())
