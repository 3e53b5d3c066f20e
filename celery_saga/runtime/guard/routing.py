"""Checks of routing: our names and the user's tasks find a queue that is consumed."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed
from celery_saga.runtime.names import COORDINATE, FIRE, REPORT, STEP

__all__ = ["CHECKS", "CODES"]

_OURS = (COORDINATE, STEP, REPORT, FIRE)

ROUTE_REFUSED = Code(
    "ROUTE_REFUSED",
    Level.ERROR,
    "The app's routing refuses {task}: {reason}. Every message of that kind would fail to be sent, for ever.",
    "Let `task_routes` answer for celery_saga.* (None is a good answer), and set `saga_queue` "
    "to a queue of `task_queues` if `task_create_missing_queues` is off.",
)
STEP_ROUTE_UNKNOWN_QUEUE = Code(
    "STEP_ROUTE_UNKNOWN_QUEUE",
    Level.ERROR,
    "Tasks are routed to queues that `task_queues` does not have, while "
    "`task_create_missing_queues` is off: {tasks}. They can be no steps.",
    "Add these queues to `task_queues`, or correct `task_routes` and the tasks' own `queue`.",
)
STEP_ROUTE_RAISES = Code(
    "STEP_ROUTE_RAISES",
    Level.WARNING,
    "The router raised for tasks that were routed without arguments, as a check has none: "
    "{tasks} ({reason}). As steps they are routed with their real arguments.",
    "Nothing, if the router needs the arguments; else let it answer for these tasks.",
)
SAGA_QUEUE_NOT_CONSUMED = Code(
    "SAGA_QUEUE_NOT_CONSUMED",
    Level.WARNING,
    "{task} goes to the queue {queue!r}, which this worker does not consume "
    "(it consumes {consumed}): some other worker with the plug-in must. Whether one does "
    "cannot be seen from here.",
    "Add {queue} to this worker's `-Q`, or set `saga_queue` (of celery_saga.fire: `task_routes`) to a queue that it "
    "consumes.",
)
TASK_PROTOCOL_1 = Code(
    "TASK_PROTOCOL_1",
    Level.ERROR,
    "task_protocol = 1 has no message headers, in which a saga's messages carry their ids: no step can run.",
    "Remove `task_protocol`; 2 has been the default since Celery 4.",
)
CONTENT_NOT_ACCEPTED = Code(
    "CONTENT_NOT_ACCEPTED",
    Level.ERROR,
    "Tasks are sent as {serializer!r}, but workers accept only {accepted}: they discard every message.",
    "Add {serializer!r} to `accept_content`, or change `task_serializer`.",
)


def our_names(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The names without which nothing runs."""
    for route in facts.routes:
        if route.task in _OURS and route.refused is not None:
            yield ROUTE_REFUSED.found(task=route.task, reason=route.refused)


def step_names(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The user's tasks, each of which may be a step."""
    refused = [r for r in facts.routes if r.task not in _OURS and r.refused is not None]
    unknown = [route.task for route in refused if route.unknown_queue]
    if unknown:
        yield STEP_ROUTE_UNKNOWN_QUEUE.found(tasks=listed(unknown))
    raised = [route for route in refused if not route.unknown_queue]
    if raised:
        names = listed(route.task for route in raised)
        yield STEP_ROUTE_RAISES.found(tasks=names, reason=raised[0].refused)


def consumed(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Where the coordinator's messages go, and those of the beat, this worker should listen."""
    if facts.listens_to is None:
        return
    for route in facts.routes:
        if route.task in (COORDINATE, FIRE) and route.queue and route.queue not in facts.listens_to:
            yield SAGA_QUEUE_NOT_CONSUMED.found(task=route.task, queue=route.queue, consumed=listed(facts.listens_to))


def messages(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The form of messages."""
    if app.conf.task_protocol == 1:
        yield TASK_PROTOCOL_1.found()
    serializer = str(app.conf.task_serializer)
    accepted = [str(one) for one in app.conf.accept_content or ()]
    if accepted and not any(
        one == serializer or one.endswith((f"/{serializer}", f"/x-{serializer}")) for one in accepted
    ):
        yield CONTENT_NOT_ACCEPTED.found(serializer=serializer, accepted=listed(accepted))


CODES = (
    ROUTE_REFUSED,
    STEP_ROUTE_UNKNOWN_QUEUE,
    STEP_ROUTE_RAISES,
    SAGA_QUEUE_NOT_CONSUMED,
    TASK_PROTOCOL_1,
    CONTENT_NOT_ACCEPTED,
)
CHECKS = (our_names, step_names, consumed, messages)
