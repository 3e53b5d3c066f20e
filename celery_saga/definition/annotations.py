"""Reads annotations: what a task returns, whether its first parameter takes None, what in a body is no run."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

__all__ = ["first_takes_none", "is_data", "result_type", "returned_by"]

_CONTAINERS = (dict, list, set, tuple)
_PLAIN = (str, bytes, bool, int, float, *_CONTAINERS)


def result_type(task: object) -> Any:
    """The return annotation of a task where only an annotation brings the value back; None otherwise.

    That is: a dataclass, pydantic model, Enum, named tuple or typed dictionary, or a container of these.
    """
    function = getattr(task, "run", None)
    if not callable(function):
        return None
    return _returned_by_hashable(function) if isinstance(function, types.FunctionType) else returned_by(function)


def returned_by(function: Callable[..., object]) -> Any:
    """The return annotation of a function, as `result_type`."""
    annotation = _hints(_plain(function)).get("return")
    return annotation if _is_structured(annotation) else None


_returned_by_hashable = lru_cache(maxsize=1024)(returned_by)


def first_takes_none(task: object) -> bool:
    """Whether the first parameter of a task takes None: it is annotated so, or None is its default."""
    function = getattr(task, "run", None)
    if not callable(function):
        return False
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters or parameters[0].kind in {parameters[0].KEYWORD_ONLY, parameters[0].VAR_KEYWORD}:
        return False
    first = parameters[0]
    if first.default is None:
        return True
    if first.annotation is first.empty:
        return False
    annotation = _hints(_plain(function)).get(first.name, first.annotation)
    return annotation in (Any, object, None, type(None)) or type(None) in _members(annotation)


def _plain(function: Callable[..., object]) -> Callable[..., object]:
    inner = inspect.unwrap(function)
    found: Callable[..., object] = getattr(inner, "__func__", inner)
    return found


def is_data(function: Callable[..., object], name: str) -> bool:
    """Whether a parameter's annotation is of a value that is stored, such as `str` or a dataclass, so of no run."""
    annotation = _hints(_plain(function)).get(name)
    return annotation in _PLAIN or typing.get_origin(annotation) in _CONTAINERS or _is_structured(annotation)


@lru_cache(maxsize=1024)
def _hints(function: Callable[..., object]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):
        # A name that exists for type checkers only: what is no text still counts.
        given = getattr(function, "__annotations__", {})
        return {name: hint for name, hint in given.items() if not isinstance(hint, str)}


def _members(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else ()


def _is_structured(annotation: Any) -> bool:
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return (
            dataclasses.is_dataclass(annotation)
            or issubclass(annotation, Enum)
            or hasattr(annotation, "__pydantic_fields__")
            or (issubclass(annotation, tuple) and hasattr(annotation, "_fields"))
            or typing.is_typeddict(annotation)
        )
    return any(_is_structured(part) for part in typing.get_args(annotation))
