"""What can be the body of a saga."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from celery_saga.errors import DefinitionError

__all__ = ["check_body"]


def check_body(body: Callable[..., object], name: str) -> None:
    """Refuse functions that wait themselves.

    Raises:
        DefinitionError: `async def`, or a generator; nothing was registered.
    """
    kinds = (
        ("async def", inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)),
        ("a generator", inspect.isgeneratorfunction(body)),
    )
    for kind, found in kinds:
        if found:
            raise DefinitionError(
                f"saga {name!r}: the body is {kind}; nothing was registered. A body is replayed from its top each time "
                "something it waits for has come, so it never waits itself: write a plain def. "
                "A step's task may do what it likes."
            )
