"""Checks of the user's tasks: acknowledgement, limits, names, and what a saga bypasses."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed

__all__ = ["CHECKS", "CODES"]

_NAME_BYTES = 255

TASK_APPLY_ASYNC_OVERRIDDEN = Code(
    "TASK_APPLY_ASYNC_OVERRIDDEN",
    Level.WARNING,
    "Tasks with an `apply_async` of their own are sent by a saga without it: {tasks}. Headers "
    "that are set when a run starts are captured and go on every message of the run; whatever "
    "else the override does (locks, checks, other queues) does not happen.",
    "Do it in the task's body or in `before_start`, or set the headers before the run starts.",
)
TASK_REJECT_WITHOUT_LIMIT = Code(
    "TASK_REJECT_WITHOUT_LIMIT",
    Level.WARNING,
    "Late-acking tasks with reject_on_worker_lost are delivered again without any limit when "
    "they kill their process: {tasks}. As steps they are parked after `saga_max_stalls`.",
    "Run them as steps, or, from Celery 5.7 on, use `task_retry_on_worker_lost`, which counts.",
)
TASK_LOST_WITH_ITS_PROCESS = Code(
    "TASK_LOST_WITH_ITS_PROCESS",
    Level.INFO,
    "Late-acking tasks without reject_on_worker_lost are acked and failed when their process "
    "is killed: {tasks}. As steps they are recovered by their lease.",
    "Nothing for sagas. Outside them, acks_late does not protect against a killed process.",
)
TASK_REJECT_WITHOUT_ACKS_LATE = Code(
    "TASK_REJECT_WITHOUT_ACKS_LATE",
    Level.INFO,
    "reject_on_worker_lost does nothing without acks_late: {tasks}. As steps they are "
    "recovered by their lease, with or without it.",
    "Set `acks_late` too if these tasks shall survive outside sagas.",
)
TASK_LIMITS_REVERSED = Code(
    "TASK_LIMITS_REVERSED",
    Level.WARNING,
    "The hard time limit is not above the soft one, so that the task is killed before it can "
    "react: {tasks}. A killed step counts as possibly done, and is undone.",
    "Set `time_limit` some seconds above `soft_time_limit`.",
)
TASK_NAME_TOO_LONG = Code(
    "TASK_NAME_TOO_LONG",
    Level.ERROR,
    "Task names above {limit} bytes do not fit into the saga tables: {tasks}. They can be no steps.",
    "Give these tasks shorter names with `name=`.",
)


def bypassed(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Overrides that a saga's own way of sending does not call."""
    names = [task.name for task in facts.tasks if task.overrides_apply_async]
    if names:
        yield TASK_APPLY_ASYNC_OVERRIDDEN.found(tasks=listed(names))


def acknowledgement(app: Celery, facts: Facts) -> Iterator[Finding]:
    """What becomes of a task whose process is killed, inside and outside of a saga."""
    # From Celery 5.7 on, a lost process may count as a retry, which ends.
    counted = bool(app.conf.get("task_retry_on_worker_lost"))
    endless = [task.name for task in facts.tasks if task.acks_late and task.reject_on_worker_lost and not counted]
    lost = [task.name for task in facts.tasks if task.acks_late and not task.reject_on_worker_lost and not counted]
    idle = [t.name for t in facts.tasks if t.reject_on_worker_lost and not t.acks_late]
    for code, names in (
        (TASK_REJECT_WITHOUT_LIMIT, endless),
        (TASK_LOST_WITH_ITS_PROCESS, lost),
        (TASK_REJECT_WITHOUT_ACKS_LATE, idle),
    ):
        if names:
            yield code.found(tasks=listed(names))


def limits(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Hard limits that leave no time after the soft one."""
    names = [
        task.name
        for task in facts.tasks
        if task.time_limit_s is not None
        and task.soft_time_limit_s is not None
        and task.time_limit_s <= task.soft_time_limit_s
    ]
    if names:
        yield TASK_LIMITS_REVERSED.found(tasks=listed(names))


def names(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Names that the tables cannot hold."""
    long = [t.name[:60] + "…" for t in facts.tasks if len(t.name.encode()) > _NAME_BYTES]
    if long:
        yield TASK_NAME_TOO_LONG.found(limit=_NAME_BYTES, tasks=listed(long))


CODES = (
    TASK_APPLY_ASYNC_OVERRIDDEN,
    TASK_REJECT_WITHOUT_LIMIT,
    TASK_LOST_WITH_ITS_PROCESS,
    TASK_REJECT_WITHOUT_ACKS_LATE,
    TASK_LIMITS_REVERSED,
    TASK_NAME_TOO_LONG,
)
CHECKS = (bypassed, acknowledgement, limits, names)
