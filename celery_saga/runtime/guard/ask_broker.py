"""Asks the broker what it can be asked over its own connection, and nothing more."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from celery import Celery
from kombu.exceptions import VersionMismatch
from kombu.transport import virtual

from celery_saga.runtime.guard.ask_rabbitmq import ask_queues
from celery_saga.runtime.guard.bounded import Answer, Unasked, ask
from celery_saga.runtime.guard.facts import BrokerFacts, QueueFacts, RedisFacts

__all__ = ["ask_broker"]


def ask_broker(app: Celery, *, queues: Iterable[str], timeout_s: float, asks: bool = True) -> BrokerFacts:
    """What is configured, and what the server answers within `timeout_s` seconds.

    Args:
        asks: False: the server is not asked.
        queues: names of the RabbitMQ queues to ask about.
    """
    scheme = str(app.conf.broker_transport or app.conf.broker_write_url or "amqp").partition("://")[0]
    try:
        connection: Any = app.connection_for_write()
        transport: Any = connection.get_transport_cls()
    except ImportError as error:
        return BrokerFacts(driver=scheme, import_error=str(error), missing_module=error.name)
    except (KeyError, ValueError, AttributeError) as error:
        return BrokerFacts(driver=scheme, import_error=str(error))
    options: dict[str, Any] = dict(app.conf.broker_transport_options or {})
    seen: dict[str, Any] = {
        "driver": str(transport.driver_type),
        "counts_messages": _counts_messages(transport),
        "confirm_publish": bool(options.get("confirm_publish")),
    }
    if seen["driver"] == "redis":
        given = options.get("visibility_timeout")
        default = getattr(transport.Channel, "visibility_timeout", 3600)
        seen["visibility_timeout_s"] = float(given if given is not None else default)
        seen["visibility_timeout_given"] = given is not None
    if not asks:
        return BrokerFacts(**seen)
    return BrokerFacts(**seen, **_asked(app, str(seen["driver"]), queues, timeout_s))


def _counts_messages(transport: Any) -> bool:
    channel = getattr(transport, "Channel", None)
    if not (isinstance(channel, type) and issubclass(channel, virtual.Channel)):
        return True
    # The base class answers 0 for every queue.
    return getattr(channel, "_size", None) is not virtual.Channel._size


def _asked(app: Celery, driver: str, names: Iterable[str], timeout_s: float) -> dict[str, Any]:
    if driver == "redis":
        reached = ask(lambda: _ask_redis(app, timeout_s), timeout_s=timeout_s)
        return {"unreachable": reached.reason} if isinstance(reached, Unasked) else reached.value
    return _asked_rabbitmq(app, list(names), timeout_s) if driver == "amqp" else {}


def _asked_rabbitmq(app: Celery, names: list[str], timeout_s: float) -> dict[str, Any]:
    # Filled while the conversation goes on: what was answered before a time-out counts.
    found: list[QueueFacts] = []
    answer = ask(lambda: ask_queues(app, names, found, timeout_s=timeout_s), timeout_s=timeout_s)
    told = list(found)
    if isinstance(answer, Unasked):
        if not told:
            return {"unreachable": answer.reason}
        told += [
            QueueFacts(name=name, exists=False, consumers=0, quorum=False, unasked=answer.reason)
            for name in names[len(told) :]
        ]
    return {"queues": tuple(told)}


def _ask_redis(app: Celery, timeout_s: float) -> dict[str, Any]:
    options = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    with app.connection_for_write(transport_options=options) as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        except VersionMismatch as error:  # of the redis package; the server is not to blame
            return {"import_error": str(error)}
        channel: Any = connection.channel()
        client = channel.client
        client.ping()
        answer = ask(lambda: _redis_settings(client), timeout_s=timeout_s)
    return {"redis": answer.value if isinstance(answer, Answer) else answer}


def _redis_settings(client: Any) -> RedisFacts:
    # The client is kombu's; Redis is a broker here, not a dependency.
    response_error = importlib.import_module("redis.exceptions").ResponseError
    try:
        policy = client.config_get("maxmemory*")
        kept = client.config_get("save"), client.config_get("appendonly")
    except response_error:  # CONFIG is refused or renamed away on managed servers, INFO is not
        memory = client.info("memory")
        return RedisFacts(
            maxmemory_bytes=int(memory["maxmemory"]),
            maxmemory_policy=str(memory["maxmemory_policy"]),
            persistent=None,
        )
    return RedisFacts(
        maxmemory_bytes=int(policy["maxmemory"]),
        maxmemory_policy=str(policy["maxmemory-policy"]),
        persistent=bool(kept[0]["save"]) or kept[1]["appendonly"] == "yes",
    )
