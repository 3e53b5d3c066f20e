"""One call of a task by a run, as a laboratory saw it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """A task was called as a step of a run.

    Args:
        task: full name of the task.
        args, kwargs: what it was called with.
        run_id: of which run.
        step: the step's key; that of an undo ends in `!undo`.
        attempt: claims of the step so far with this one, from 1.
        idempotency_key: the same for every attempt of the step.
    """

    task: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(hash=False)
    run_id: str
    step: str
    attempt: int
    idempotency_key: str

    @property
    def name(self) -> str:
        """The last part of the task's name."""
        return self.task.rpartition(".")[2]

    @property
    def is_undo(self) -> bool:
        """It reverses a step."""
        return self.step.endswith("!undo")

    def __str__(self) -> str:
        """The name and the arguments, like `charge 500`."""
        return " ".join([self.name, *map(str, self.args), *(f"{name}={value}" for name, value in self.kwargs.items())])
