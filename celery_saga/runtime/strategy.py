"""Turns a message named `celery_saga.step` back into one for the user's task, in the worker's main process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Celery

from celery_saga.engine.seldom import Seldom
from celery_saga.runtime.hints import HINTS, Hint, HintKind
from celery_saga.runtime.names import HEADER, STEP
from celery_saga.runtime.received import RECEIVED
from celery_saga.runtime.reference import step_reference
from celery_saga.runtime.step_task import SagaStep

__all__ = ["step_strategy"]

logger = logging.getLogger("celery_saga.strategy")
seldom = Seldom(logger)


def step_strategy(task: Any, app: Celery, consumer: Any, **_: Any) -> Callable[..., Any]:
    """How a consumer handles steps: with the strategy of the task that they are to execute.

    So that task's own request class, limits, events and acknowledgements apply, and hooks see its name. A worker
    that lacks the task acknowledges the message and leaves a report, so that it is sent again later.
    """

    def handler(message: Any, payload: Any, ack: Any, reject: Any, callbacks: Any, **kwargs: Any) -> Any:
        given = message.headers.get(HEADER)
        RECEIVED.note(given)
        ref = step_reference(given)
        if ref is None:
            seldom.warning("a message for %s names no step; it was dropped", STEP)
            ack(logger, consumer.connection_errors)
            return None
        name = str(ref.get("task"))
        target = consumer.strategies.get(name)
        # A task without the envelope would be called without its arguments.
        if target is None or not isinstance(app.tasks.get(name), SagaStep):
            seldom.warning(
                "step %r of run %s needs the task %r, which this worker does not have; it is sent again later",
                ref["step"],
                ref["run"],
                name,
            )
            HINTS.put(Hint(HintKind.UNKNOWN_TASK, dict(ref)))
            ack(logger, consumer.connection_errors)
            return None
        message.headers["task"] = name
        if ref.get("timeout_s") is not None and _kills(consumer):
            message.headers["timelimit"] = _limits(message.headers.get("timelimit"), float(ref["timeout_s"]))
        return target(message, payload, ack, reject, callbacks, **kwargs)

    return handler


def _kills(consumer: Any) -> bool:
    """The pool ends a task at its hard limit by killing the child; others cannot, or stop as a whole."""
    return str(getattr(type(consumer.pool), "__module__", "")).endswith("concurrency.prefork")


def _limits(given: Any, timeout_s: float) -> list[Any]:
    """The message's hard and soft limit, the hard one no later than the step's time-out.

    An effect must not come after its undo, and the undo follows the time-out.
    """
    hard, soft = given or (None, None)
    hard = timeout_s if hard is None else min(hard, timeout_s)
    return [hard, soft if soft is None or soft < hard else None]
