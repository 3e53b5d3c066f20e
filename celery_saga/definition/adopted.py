"""The built-in saga of canvases that are made durable where they stand: what it is started with is the canvas."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from celery_saga.definition.canvas.body import perform
from celery_saga.definition.canvas.tree import FORMAT, Node, from_plain
from celery_saga.definition.decorator import saga

if TYPE_CHECKING:
    from celery_saga.definition.run import Run

__all__ = ["ADOPTED", "NAME"]

NAME: Final = "celery_saga.canvas"
"""Name of the saga; its version is that of the stored form."""


# A worker that does not know a later form yet hands the run back, as with any saga.
@saga(name=NAME, version=FORMAT)
def ADOPTED(run: Run, canvas: Any, args: Any, kwargs: Any) -> Any:  # noqa: N802  # a constant like any other
    """A Celery canvas that was made durable."""
    node = _nodes(_Input(run._replay.run.input_text or "", canvas))
    return perform(run, node, tuple(args), kwargs)


@dataclass(frozen=True, slots=True)
class _Input:
    """A canvas, told from others by the text that it was decoded from: a run id comes again once its run was purged."""

    text: str
    canvas: Any = field(compare=False)


@lru_cache(maxsize=16)
def _nodes(given: _Input) -> Node:
    """Kept for the runs that this process decides now: each of their passes asks."""
    return from_plain(given.canvas)
