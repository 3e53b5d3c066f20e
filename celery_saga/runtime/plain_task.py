"""The base of our own Celery tasks."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from celery import Celery, Task
from celery.local import PromiseProxy

from celery_saga.engine.seldom import Seldom

__all__ = ["OwnTask", "PlainTask", "add_own"]

seldom = Seldom(logging.getLogger("celery_saga.worker"))

_Base: Any = Task


class PlainTask(_Base):  # type: ignore[misc]
    """Celery's own base: what a project's `task_cls` does is meant for the project's tasks."""

    abstract = True


class OwnTask(PlainTask):
    """A task that only we send: a message with arguments that we never give is dropped with a word, and no failure."""

    abstract = True
    _head: inspect.Signature | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the tracer calls, the request already in its place."""
        if self._head is None:
            self._head = inspect.signature(self.run)
        try:
            self._head.bind(*args, **kwargs)
        except TypeError as error:
            seldom.warning("a message for %s was dropped: %s", self.name, error)
            return None
        return self.run(*args, **kwargs)


def add_own(app: Celery, name: str, fun: Callable[..., Any], **options: Any) -> None:
    """Add a task of ours to an app, which may not be configured yet, and to no other one.

    As `app.task` does, which in a spawned child adds it to every app, so that each has the one of another.
    """
    private: Any = app
    options = {"name": name, "base": OwnTask, **options}
    if private.finalized:
        private._task_from_fun(fun, **options)
    else:
        private._pending.append(PromiseProxy(private._task_from_fun, (fun,), options))
