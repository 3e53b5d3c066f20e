"""Checks of RabbitMQ as a broker: confirms, quorum queues, the consumer's time-out."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts, Role
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed
from celery_saga.runtime.names import COORDINATE, FIRE

__all__ = ["CHECKS", "CODES"]

_DEFAULT_CONSUMER_TIMEOUT_S = 1800.0

RABBITMQ_CONFIRMS_OFF = Code(
    "RABBITMQ_CONFIRMS_OFF",
    Level.WARNING,
    "Publisher confirms are off: while RabbitMQ holds publishers back or fails over, a message "
    "can vanish although sending it succeeded. A saga's is sent again by the sweeper, so that "
    "it costs latency only; other tasks are lost.",
    "Set `broker_transport_options = {{'confirm_publish': True}}`.",
)
RABBITMQ_QUORUM_WITHOUT_CONFIRMS = Code(
    "RABBITMQ_QUORUM_WITHOUT_CONFIRMS",
    Level.WARNING,
    "Quorum queues without publisher confirms lose what is sent while they change their "
    "leader: {queues}. A saga's message is sent again by the sweeper; other tasks are lost.",
    "Set `broker_transport_options = {{'confirm_publish': True}}`.",
)
RABBITMQ_QUORUM_GLOBAL_QOS = Code(
    "RABBITMQ_QUORUM_GLOBAL_QOS",
    Level.ERROR,
    "worker_detect_quorum_queues is off, but there are quorum queues, which refuse the global "
    "prefetch limit that the worker then asks for: {queues}.",
    "Remove `worker_detect_quorum_queues = False`.",
)
RABBITMQ_QUORUM_DELAY = Code(
    "RABBITMQ_QUORUM_DELAY",
    Level.INFO,
    "With quorum queues Celery delays messages in the broker: a countdown below 1 s raises "
    "ValueError, and nothing can be delayed until a worker has declared the delay exchanges "
    "({queues}). Sagas send no countdown.",
    "Nothing for sagas. Outside them use whole seconds, and start a worker first.",
)
RABBITMQ_QUEUE_CONFLICT = Code(
    "RABBITMQ_QUEUE_CONFLICT",
    Level.ERROR,
    "The queue {queue!r} exists with other properties than this app declares: {conflict}. "
    "Workers that consume it stop at start, and clients fail to publish.",
    "Declare it in `task_queues` as it is, or delete the queue when it is empty.",
)
RABBITMQ_QUEUE_NOT_ASKED = Code(
    "RABBITMQ_QUEUE_NOT_ASKED",
    Level.INFO,
    "RabbitMQ does not let this user ask about the queue {queue!r} ({reason}): its type and "
    "its consumers cannot be seen from here.",
    "Give the user the right to configure this queue, as a worker needs.",
)
RABBITMQ_NO_CONSUMER = Code(
    "RABBITMQ_NO_CONSUMER",
    Level.WARNING,
    "Nobody consumes the queue {queue!r}, to which {task} goes: runs wait until a worker does.",
    "Start a worker with `-Q {queue}`, or set `saga_queue` (of celery_saga.fire: `task_routes`) to a queue that is "
    "consumed.",
)
RABBITMQ_CONSUMER_TIMEOUT = Code(
    "RABBITMQ_CONSUMER_TIMEOUT",
    Level.WARNING,
    "RabbitMQ closes the channel of a consumer that holds a message unacked longer than "
    "consumer_timeout ({limit_s:g} s unless configured otherwise; the server's value cannot be "
    "seen from here), which ends the whole worker. Late-acking tasks may take up to "
    "{longest_s:g} s: {tasks}. Steps are safe, since they are acked when accepted; these tasks "
    "outside a saga are not.",
    "Raise consumer_timeout on the server, or run these tasks as steps or without acks_late.",
)
RABBITMQ_CONSUMER_TIMEOUT_NO_LIMIT = Code(
    "RABBITMQ_CONSUMER_TIMEOUT_NO_LIMIT",
    Level.INFO,
    "Late-acking tasks without a time limit end their worker when they take longer than "
    "RabbitMQ's consumer_timeout ({limit_s:g} s unless configured otherwise; the server's value "
    "cannot be seen from here): {tasks}. Steps are safe, since they are acked when accepted.",
    "Give these tasks a `time_limit` below consumer_timeout.",
)


def confirms(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Publisher confirms, which matter most with quorum queues."""
    if facts.broker.driver != "amqp" or facts.broker.confirm_publish:
        return
    quorum = _quorum_queues(app, facts)
    if quorum:
        yield RABBITMQ_QUORUM_WITHOUT_CONFIRMS.found(queues=listed(quorum))
    else:
        yield RABBITMQ_CONFIRMS_OFF.found()


def quorum(app: Celery, facts: Facts) -> Iterator[Finding]:
    """What quorum queues change for the worker and for countdowns."""
    names = _quorum_queues(app, facts) if facts.broker.driver == "amqp" else set()
    if not names:
        return
    if not app.conf.get("worker_detect_quorum_queues", True):
        yield RABBITMQ_QUORUM_GLOBAL_QOS.found(queues=listed(names))
    yield RABBITMQ_QUORUM_DELAY.found(queues=listed(names))


def _quorum_queues(app: Celery, facts: Facts) -> set[str]:
    names = {queue.name for queue in facts.broker.queues if queue.quorum}
    for queue in app.conf.task_queues or ():
        arguments = getattr(queue, "queue_arguments", None) or {}
        if arguments.get("x-queue-type") == "quorum":
            names.add(str(queue.name))
    if app.conf.get("task_default_queue_type") == "quorum":
        names.add(str(app.conf.task_default_queue))
    return names


def queues(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Each queue that is used here, as the server has it."""
    ours = {route.queue: route.task for route in reversed(facts.routes) if route.task in (COORDINATE, FIRE)}
    for queue in facts.broker.queues:
        if queue.unasked is not None:
            yield RABBITMQ_QUEUE_NOT_ASKED.found(queue=queue.name, reason=queue.unasked)
        if queue.conflict is not None:
            yield RABBITMQ_QUEUE_CONFLICT.found(queue=queue.name, conflict=queue.conflict)
        # A worker that starts has no consumer yet.
        awaited = queue.name in ours and facts.role is Role.CLIENT
        if awaited and queue.unasked is None and queue.consumers == 0:
            yield RABBITMQ_NO_CONSUMER.found(queue=queue.name, task=ours[queue.name])


def consumer_timeout(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Late-acking tasks that may outlast the server's patience."""
    if facts.broker.driver != "amqp":
        return
    limit_s = _consumer_timeout_s(app)
    late = [task for task in facts.tasks if task.acks_late]
    over = {
        task.name: task.time_limit_s for task in late if task.time_limit_s is not None and task.time_limit_s >= limit_s
    }
    if over:
        yield RABBITMQ_CONSUMER_TIMEOUT.found(limit_s=limit_s, longest_s=max(over.values()), tasks=listed(over))
    endless = [task.name for task in late if task.time_limit_s is None]
    if endless:
        yield RABBITMQ_CONSUMER_TIMEOUT_NO_LIMIT.found(limit_s=limit_s, tasks=listed(endless))


def _consumer_timeout_s(app: Celery) -> float:
    given_ms = [
        (getattr(queue, "queue_arguments", None) or {}).get("x-consumer-timeout")
        for queue in app.conf.task_queues or ()
    ]
    seconds = [float(value) / 1000 for value in given_ms if value]
    return min(seconds, default=_DEFAULT_CONSUMER_TIMEOUT_S)


CODES = (
    RABBITMQ_CONFIRMS_OFF,
    RABBITMQ_QUORUM_WITHOUT_CONFIRMS,
    RABBITMQ_QUORUM_GLOBAL_QOS,
    RABBITMQ_QUORUM_DELAY,
    RABBITMQ_QUEUE_CONFLICT,
    RABBITMQ_QUEUE_NOT_ASKED,
    RABBITMQ_NO_CONSUMER,
    RABBITMQ_CONSUMER_TIMEOUT,
    RABBITMQ_CONSUMER_TIMEOUT_NO_LIMIT,
)
CHECKS = (confirms, quorum, queues, consumer_timeout)
