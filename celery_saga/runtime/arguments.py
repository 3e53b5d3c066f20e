"""The stored arguments of a step as the task takes them."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any

from celery import Celery
from pydantic import BaseModel

from celery_saga.core import codec
from celery_saga.definition.payload import decode_as
from celery_saga.errors import InvalidPayload

__all__ = ["arguments_for", "fits"]

_KEPT_AS = "_saga_typed_parameters"


def arguments_for(task: Any, args_text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments.

    What is stored of a dataclass, pydantic model or Enum is a mapping or a value; it becomes an instance again where
    the parameter's annotation is such a class, and stays as it is everywhere else.

    Raises:
        InvalidPayload: the text is damaged, or a mapping does not fit the annotated class.
    """
    args, kwargs = codec.decode(args_text)
    typed = _typed(task)
    if typed is None:
        return tuple(args), dict(kwargs)
    signature, classes = typed
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError:
        return tuple(args), dict(kwargs)  # the call itself will say what is wrong
    for name, cls in classes.items():
        if name in bound.arguments:
            bound.arguments[name] = _as(cls, bound.arguments[name], name)
    return bound.args, bound.kwargs


def fits(app: Celery, name: str, args_text: str) -> bool:
    """Refuse arguments that a task does not take, as Celery would when it is called; bound tasks count without `self`.

    Args:
        name: of the task.
        args_text: codec text of [args, kwargs].
    Returns:
        False: this process does not know the task, and nothing was checked.
    Raises:
        InvalidPayload: they do not fit its signature, or a mapping not the class that a parameter is annotated with.
    """
    task: Any = app.tasks.get(name)
    if task is None:
        return False
    args, kwargs = codec.decode(args_text)
    try:
        signature = inspect.signature(task.run)
    except ValueError:
        return False  # a callable that tells nothing of itself
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        takes = name.rpartition(".")[2] + str(signature).replace("'", "")
        raise InvalidPayload(
            f"the task {name!r} does not take these arguments: {error}; nothing was changed. It is {takes}: give all "
            "its arguments, the step's result included."
        ) from None
    arguments_for(task, args_text)
    return True


def _as(cls: type, value: Any, name: str) -> Any:
    if issubclass(cls, Enum):
        try:
            return decode_as(cls, value)
        except InvalidPayload:
            return value  # given as something else on purpose
    if not isinstance(value, Mapping):
        return value
    try:
        return decode_as(cls, value)
    except InvalidPayload as error:
        raise InvalidPayload(f"argument {name!r}: {error}", path=name) from error


def _typed(task: Any) -> tuple[inspect.Signature, dict[str, type]] | None:
    if _KEPT_AS not in task.__dict__:
        task.__dict__[_KEPT_AS] = _look(task)
    found: tuple[inspect.Signature, dict[str, type]] | None = task.__dict__[_KEPT_AS]
    return found


def _look(task: Any) -> tuple[inspect.Signature, dict[str, type]] | None:
    try:
        signature = inspect.signature(task.run)
        hints = typing.get_type_hints(inspect.unwrap(task.run))
    except Exception:  # noqa: BLE001  # annotations may be anything; the task was never asked for them before
        return None
    found = {name: _class_in(hints.get(name)) for name in signature.parameters}
    classes = {name: cls for name, cls in found.items() if cls is not None}
    return (signature, classes) if classes else None


def _class_in(hint: Any) -> type | None:
    if typing.get_origin(hint) in {typing.Union, UnionType}:
        others = [part for part in typing.get_args(hint) if part is not NoneType]
        hint = others[0] if len(others) == 1 else None
    if not isinstance(hint, type):
        return None
    return hint if dataclasses.is_dataclass(hint) or issubclass(hint, (BaseModel, Enum)) else None
