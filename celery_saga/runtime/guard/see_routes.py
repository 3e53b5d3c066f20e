"""Routes celery_saga's names and the user's tasks once, through the app's own router."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.exceptions import QueueNotFound
from celery.utils.imports import instantiate

from celery_saga.runtime.drivers import driver_of
from celery_saga.runtime.guard.bounded import Unasked, ask
from celery_saga.runtime.guard.facts import RouteFacts
from celery_saga.runtime.guard.see_tasks import user_tasks
from celery_saga.runtime.names import COORDINATE, FIRE, REPORT, STEP

__all__ = ["see_routes"]


def see_routes(app: Celery, *, timeout_s: float) -> tuple[RouteFacts, ...]:
    """Where each task would go; a router may be slow, so all of them share `timeout_s`."""
    # Routing adds queues to app.amqp.queues, and a worker would then consume them: this one
    # is thrown away.
    amqp_class: Any = app.amqp_cls  # a class or the path of one
    router: Any = instantiate(amqp_class, app=app).router
    tasks: list[tuple[str, Any]] = [(name, app.tasks.get(name)) for name in _ours(app)]
    tasks += [(str(task.name), task) for task in user_tasks(app)]
    # Filled while the router works: what it said before a time-out counts.
    found: list[RouteFacts] = []

    def question() -> None:
        for name, task in tasks:
            options = _declared(task)
            if name == COORDINATE and (queue := app.conf.get("saga_queue")):
                options["queue"] = queue
            found.append(_route(router, name, options, task))

    answer = ask(question, timeout_s=timeout_s)
    seen = list(found)
    reason = answer.reason if isinstance(answer, Unasked) else ""
    unanswered = tasks[len(seen) :]
    for name, _ in unanswered:
        seen.append(RouteFacts(task=name, queue=None, refused=reason, unknown_queue=False))
        reason = f"not asked, after the router had no answer for {unanswered[0][0]}"
    return tuple(seen)


def _ours(app: Celery) -> tuple[str, ...]:
    ours = (COORDINATE, STEP, REPORT)
    return ours if driver_of(app) is None else (*ours, FIRE)  # a beat sends it, where one wakes schedules


def _declared(task: Any) -> dict[str, Any]:
    if task is None:
        return {}
    options: dict[str, Any] = task._get_exec_options()
    return {key: value for key, value in options.items() if value is not None}


def _route(router: Any, name: str, options: dict[str, Any], task: Any) -> RouteFacts:
    try:
        queue = router.route(options, name, (), {}, task).get("queue")
    except QueueNotFound as error:
        return RouteFacts(task=name, queue=None, refused=str(error), unknown_queue=True)
    except Exception as error:  # noqa: BLE001  recorded: routers are the user's code
        reason = f"{type(error).__name__}: {error}"
        return RouteFacts(task=name, queue=None, refused=reason, unknown_queue=False)
    target = None if queue is None else str(getattr(queue, "name", queue))
    return RouteFacts(task=name, queue=target, refused=None, unknown_queue=False)
