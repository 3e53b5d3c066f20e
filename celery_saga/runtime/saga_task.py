"""Every saga as a Celery task `saga.<name>`, so that send_task, periodic tasks and chains can start it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from keyword import iskeyword
from typing import Any

from celery import Celery

from celery_saga.definition.declared import Declared
from celery_saga.definition.saga import of_message
from celery_saga.errors import UnknownSaga
from celery_saga.runtime.plain_task import PlainTask
from celery_saga.runtime.services import services_of

__all__ = ["PREFIX", "register_sagas"]

logger = logging.getLogger("celery_saga.worker")

PREFIX = "saga."


def register_sagas(app: Celery, sagas: Iterable[Declared]) -> int:
    """Add the tasks that are missing; each starts the highest version known when it is executed. How many were new."""
    new = 0
    # What is built in is started by verbs of its own.
    for saga in {saga.name: saga for saga in sagas if not saga.name.startswith("celery_saga.")}.values():
        there = app.tasks.get(PREFIX + saga.name)
        if there is None:
            task: Any = app.task
            options = {"base": PlainTask, "bind": True, "shared": False, "typing": False, "lazy": False}
            task(name=PREFIX + saga.name, **options)(_named(saga.name, saga.body.__module__))
            new += 1
        elif not isinstance(there, PlainTask):
            logger.warning(
                "the task %s%s is the project's own, so the saga %r cannot be started under that name",
                PREFIX,
                saga.name,
                saga.name,
            )
    return new


def _named(name: str, module: str) -> Any:
    # By name: holding the saga would keep one alive that was defined in a function that is over, as in a test.
    def start(self: Any, /, *args: Any, **kwargs: Any) -> str:
        saga = services_of(self.app).registry.latest(name)
        if saga is None:
            raise UnknownSaga(f"the app knows no saga {name!r} any more; nothing was started")
        # A message may come twice, and Celery sends one again with its id.
        task_id = self.request.id
        return (saga if task_id is None else of_message(saga, task_id)).start(*args, **kwargs).id

    # Celery makes the head of a function of it, in source text.
    start.__name__ = start.__qualname__ = name if name.isidentifier() and not iskeyword(name) else "start"
    start.__module__ = module
    start.__doc__ = f"Start a run of the saga {name!r}; returns its id."
    return start
