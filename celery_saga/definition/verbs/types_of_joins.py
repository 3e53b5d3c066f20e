"""The types of what joins take, as checkers see them; at run time there is nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from typing import TypeAlias

    from celery.canvas import Signature

    from celery_saga.definition.run import Run
    from celery_saga.definition.saga import Saga

    R = TypeVar("R")
    T = TypeVar("T")

    Abort: TypeAlias = Literal["abort"]
    Collect: TypeAlias = Literal["collect"]
    Given: TypeAlias = Signature[R] | Callable[[Run], R]
    # The item is the only argument of a task; a signature has more.
    Work: TypeAlias = Signature[R] | Saga[[T], R] | Callable[[Run, T], R] | Callable[[T], R]
    Undo: TypeAlias = Callable[[R], object] | Signature[Any] | None
