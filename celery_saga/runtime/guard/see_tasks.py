"""Sees the registered tasks: their limits, acknowledgements, retries and overrides."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from celery import Celery
from celery.app.task import Task

from celery_saga.runtime.guard.facts import TaskFacts

__all__ = ["see_tasks", "user_tasks"]

_NOT_THE_USERS = ("celery.", "celery_saga.")


def user_tasks(app: Celery) -> Iterator[Any]:
    """The registered tasks that are neither Celery's nor celery_saga's own, by name."""
    for name, task in sorted(app.tasks.items()):
        if not (name.startswith(_NOT_THE_USERS) or _starts_a_saga(name, task)):
            yield task


def _starts_a_saga(name: str, task: Any) -> bool:
    # By its name alone it could be a task of a user's module called saga.
    # Where its function was written decides; its __module__ names the saga's own.
    module = getattr(inspect.unwrap(task.run), "__globals__", {}).get("__name__", "")
    return name.startswith("saga.") and str(module).startswith("celery_saga.")


def see_tasks(app: Celery) -> tuple[TaskFacts, ...]:
    """The user's tasks; no broker or database is touched."""
    return tuple(_task(app, task) for task in user_tasks(app))


def _task(app: Celery, task: Any) -> TaskFacts:
    conf = app.conf
    return TaskFacts(
        name=task.name,
        time_limit_s=_seconds(task.time_limit, conf.task_time_limit),
        soft_time_limit_s=_seconds(task.soft_time_limit, conf.task_soft_time_limit),
        acks_late=bool(task.acks_late),
        reject_on_worker_lost=bool(task.reject_on_worker_lost),
        ignores_result=bool(task.ignore_result),
        overrides_apply_async=_overrides_apply_async(task),
        longest_retry_delay_s=_longest_retry_delay_s(task),
    )


def _seconds(own: float | None, of_the_app: float | None) -> float | None:
    value = own or of_the_app
    return float(value) if value else None


def _overrides_apply_async(task: Any) -> bool:
    # An instrumentation that replaces Task.apply_async itself is no override: it adds its
    # headers to what starts a run, which is where they are captured.
    return "apply_async" in vars(task) or type(task).apply_async is not Task.apply_async


def _longest_retry_delay_s(task: Any) -> float:
    delay = float(task.default_retry_delay or 0)
    if getattr(task, "autoretry_for", ()):
        backoff = getattr(task, "retry_backoff", False)
        return float(getattr(task, "retry_backoff_max", 600)) if backoff else delay
    # Whether a task without autoretry_for calls self.retry() cannot be seen; one that chose
    # its own delay does.
    return delay if delay != float(Task.default_retry_delay) else 0.0
