"""Takes what tasks send outside of their run, so that a laboratory needs no broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from celery import Celery, uuid
from celery.result import EagerResult

from celery_saga.client.purity import forbid

__all__ = ["Outbox", "Sent"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a task, or the code under test, has sent to a worker; nobody executes it.

    Args:
        task: full name of the task.
        args, kwargs: its arguments.
    """

    task: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(hash=False)

    @property
    def name(self) -> str:
        """The last part of the task's name."""
        return self.task.rpartition(".")[2]


class Outbox:
    """Stands in the place of an app's `send_task`, by which `delay` and `apply_async` send too.

    Args:
        app: the app; one whose `send_task` somebody has replaced already is left as it is.
    """

    def __init__(self, app: Celery) -> None:
        self.sent: list[Sent] = []
        self._app = app
        self._is_there = False

    def open(self) -> None:
        """Take messages from now on."""
        self._is_there = "send_task" not in self._app.__dict__
        if self._is_there:
            self._app.__dict__["send_task"] = self._take

    def close(self) -> None:
        """Let messages go to the broker again."""
        if self._is_there:
            self._app.__dict__.pop("send_task", None)

    def _take(self, name: str, args: Any = None, kwargs: Any = None, *_: Any, **options: Any) -> Any:
        forbid(f"sending {name}", f"Write run.step({name.rpartition('.')[2]}.si(...)).")
        self.sent.append(Sent(name, tuple(args or ()), dict(kwargs or {})))
        # Waiting for it ends at once, with None: there is nobody to wait for.
        return EagerResult(options.get("task_id") or uuid(), None, "PENDING", name=name)
