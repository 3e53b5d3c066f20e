"""Reads what a test says of its tasks and steps: which ones it means, and what they shall do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from celery_saga.core.records import StepRecord
from celery_saga.definition.calls import is_task
from celery_saga.errors import DefinitionError

__all__ = ["NOTHING", "behaviour_of", "check_count", "is_error", "matching", "task_name"]


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()
"""Not given."""


def task_name(task: object, where: str) -> str:
    """The full name of a task, given as itself or by name.

    Raises:
        DefinitionError: it is neither; nothing was planned.
    """
    if isinstance(task, str) and task:
        return task
    if is_task(task):
        return str(task.name)  # type: ignore[attr-defined]
    raise DefinitionError(f"{where} takes a task or its full name, got {task!r}; nothing was planned.")


def matching(step: object, where: str) -> Callable[[StepRecord], bool]:
    """Whether a step has this key, or executes this task.

    Raises:
        DefinitionError: it is neither a key nor a task; nothing was planned.
    """
    name = task_name(step, where) if is_task(step) else step
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"{where} takes a step's key or its task, got {step!r}; nothing was planned.")
    return lambda record: name in {record.key, record.task}


def check_count(count: object, what: str) -> int:
    """A number of times, at least 1.

    Raises:
        DefinitionError: it is not; nothing was planned.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise DefinitionError(f"{what} must be a whole number of at least 1, got {count!r}; nothing was planned.")
    return count


def is_error(value: object) -> bool:
    """It can be raised."""
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def behaviour_of(returns: object, side_effect: object, where: str) -> Callable[..., Any]:
    """What a stub does when it is called.

    Args:
        returns: what it returns.
        side_effect: in its place: an error to raise, a function to call, or several values and errors, one a call.
    Raises:
        DefinitionError: both are given, or a side effect that is none of these; nothing was planned.
    """
    if side_effect is NOTHING:
        value = None if returns is NOTHING else returns
        return lambda *_, **__: value
    if returns is not NOTHING:
        raise DefinitionError(f"{where} takes returns= or side_effect=, not both; nothing was planned.")
    if is_error(side_effect):
        return _one_after_the_other(_for_ever(side_effect))
    if callable(side_effect):
        return side_effect
    if isinstance(side_effect, Iterable) and not isinstance(side_effect, str | bytes):
        return _one_after_the_other(iter(side_effect))
    raise DefinitionError(
        f"{where} side_effect= takes an error, a function or a list, got {side_effect!r}; nothing was planned."
    )


def _for_ever(value: object) -> Iterator[object]:
    while True:
        yield value


def _one_after_the_other(values: Iterator[Any]) -> Callable[..., Any]:
    def stub(*_: Any, **__: Any) -> Any:
        for value in values:
            if is_error(value):
                raise value
            return value
        raise AssertionError("the stub was called more often than its side_effect= has values")

    return stub
