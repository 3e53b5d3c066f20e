"""Checks of any broker: reachable, loadable, tried, able to count, and what a loss does."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts, Role
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed

__all__ = ["CHECKS", "CODES"]

_TRIED = ("redis", "amqp", "filesystem", "memory")

BROKER_TRANSPORT_UNUSABLE = Code(
    "BROKER_TRANSPORT_UNUSABLE",
    Level.ERROR,
    "The broker's transport {driver!r} cannot be loaded: {reason}.",
    "Install what the transport needs, or correct `broker_url`.",
)
KOMBU_REDIS_WITHOUT_PACKAGING = Code(
    "KOMBU_REDIS_WITHOUT_PACKAGING",
    Level.ERROR,
    "kombu's Redis transport imports `packaging`, which kombu does not require and which is "
    "not installed: no message can be sent or received.",
    "Install `celery[redis]` and `packaging`.",
)
BROKER_UNREACHABLE = Code(
    "BROKER_UNREACHABLE",
    Level.ERROR,
    "The broker cannot be reached ({reason}), so nothing is known about its queues and "
    "settings. Runs are kept in the database and go on when it is back.",
    "Start the broker or correct `broker_url`, then check again.",
)
BROKER_UNTRIED = Code(
    "BROKER_UNTRIED",
    Level.INFO,
    "celery_saga has not been tried on the transport {driver!r}; it needs messages with "
    "headers and nothing else, and survives their loss and repetition.",
    "Try a run with a killed worker before you rely on it.",
)
BROKER_WITHOUT_DEPTH = Code(
    "BROKER_WITHOUT_DEPTH",
    Level.WARNING,
    "The transport {driver!r} does not tell how many messages wait in a queue: it says 0. "
    "Behind a backlog, steps are sent again and again; the copies are refused, but cost.",
    "Keep backlogs shorter than `saga_lease`, or use RabbitMQ or Redis.",
)
BROKER_IN_MEMORY = Code(
    "BROKER_IN_MEMORY",
    Level.WARNING,
    "The memory transport does not leave this process: other processes never get a message.",
    "Use it in tests only; the filesystem transport needs no server either.",
)
CONNECTION_LOSS_CANCELS = Code(
    "CONNECTION_LOSS_CANCELS",
    Level.INFO,
    "worker_cancel_long_running_tasks_on_connection_loss is on: when the broker connection "
    "breaks, late-acking tasks are killed in the middle and delivered again ({tasks}). As "
    "steps they are acked when accepted and go on undisturbed.",
    "Nothing for sagas. Outside them, such tasks must bear being killed anywhere.",
)
CONNECTION_LOSS_REPEATS = Code(
    "CONNECTION_LOSS_REPEATS",
    Level.INFO,
    "worker_cancel_long_running_tasks_on_connection_loss is off: when the broker connection "
    "breaks, late-acking tasks go on and are delivered again meanwhile, so that they run "
    "twice at once ({tasks}). As steps they are acked when accepted and run once.",
    "Nothing for sagas. Outside them, switch the setting on or make the tasks bear it.",
)


def transport(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The transport loads and its server answers."""
    broker = facts.broker
    if (broker.missing_module or "").partition(".")[0] == "packaging":
        yield KOMBU_REDIS_WITHOUT_PACKAGING.found()
    elif broker.import_error is not None:
        yield BROKER_TRANSPORT_UNUSABLE.found(driver=broker.driver, reason=broker.import_error)
    elif broker.unreachable is not None:
        yield BROKER_UNREACHABLE.found(reason=broker.unreachable)


def abilities(app: Celery, facts: Facts) -> Iterator[Finding]:
    """What celery_saga asks of a transport, and whether it has been tried on this one."""
    broker = facts.broker
    if broker.import_error is not None:
        return
    if broker.driver not in _TRIED:
        yield BROKER_UNTRIED.found(driver=broker.driver)
    if not broker.counts_messages:
        yield BROKER_WITHOUT_DEPTH.found(driver=broker.driver)
    if broker.driver == "memory" and facts.role is Role.WORKER:
        yield BROKER_IN_MEMORY.found()


def connection_loss(app: Celery, facts: Facts) -> Iterator[Finding]:
    """What a broken broker connection does to late-acking tasks outside sagas."""
    late = [task.name for task in facts.tasks if task.acks_late]
    if late:
        cancels = app.conf.worker_cancel_long_running_tasks_on_connection_loss
        code = CONNECTION_LOSS_CANCELS if cancels else CONNECTION_LOSS_REPEATS
        yield code.found(tasks=listed(late))


CODES = (
    BROKER_TRANSPORT_UNUSABLE,
    KOMBU_REDIS_WITHOUT_PACKAGING,
    BROKER_UNREACHABLE,
    BROKER_UNTRIED,
    BROKER_WITHOUT_DEPTH,
    BROKER_IN_MEMORY,
    CONNECTION_LOSS_CANCELS,
    CONNECTION_LOSS_REPEATS,
)
CHECKS = (transport, abilities, connection_loss)
