"""The body of a canvas: drives a run through its nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from celery_saga.core import codec
from celery_saga.definition.calls import OPTION
from celery_saga.definition.canvas.drawing import drawn
from celery_saga.definition.canvas.reading import read_canvas
from celery_saga.definition.canvas.tree import Node, Parallel, Sequence, Task, bound, to_plain

if TYPE_CHECKING:
    from celery_saga.definition.run import Run

__all__ = ["body_of", "perform"]


class _Call(dict[str, Any]):
    """A signature as `run.step` takes it, of a task that this process need not have."""

    def clone(self) -> _Call:
        """A copy."""
        return _Call(self)


def body_of(name: str, canvas: object) -> Callable[..., Any]:
    """A function that can be the body of a saga: what the run is started with goes to the canvas's first tasks.

    Raises:
        DefinitionError, InvalidPayload: as `read_canvas`; nothing was registered.
    """
    node = read_canvas(canvas, f"Saga.from_canvas({name!r})", "nothing was registered")

    def body(run: Run, /, *args: Any, **kwargs: Any) -> Any:
        return perform(run, node, args, kwargs)

    # A body is told from another by its place: that of the canvas, and what is in it.
    caller = sys._getframe(2)
    place = caller.f_code.co_qualname.replace("<module>", "")
    body.__module__ = str(caller.f_globals.get("__name__", "?"))
    body.__name__ = name
    body.__qualname__ = f"{place}.<locals>." * bool(place) + f"canvas {name} {codec.digest(to_plain(node))[:12]}"
    body.__doc__ = f"The canvas {name!r}."
    body.diagram = partial(drawn, node)  # type: ignore[attr-defined]
    return body


def perform(run: Run, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What the node results in. Each part of a sequence gets the result of the one before, as Celery passes it.

    Args:
        args, kwargs: for the first tasks, in front of their own.
    """
    match node:
        case Task():
            return run.step(_call(node, args, kwargs))
        case Sequence():
            result = perform(run, node.parts[0], args, kwargs)
            for part in node.parts[1:]:
                result = perform(run, part, (result,), {})
            return result
        case Parallel():
            if not node.parts:
                return []
            return run.group([_part(part, args, kwargs) for part in node.parts])


def _part(node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A part of a group: a task, where nothing but its number tells it from the others; else a function of the run."""
    if isinstance(node, Task) and node.policies.name is None:
        return _call(node, args, kwargs)
    return lambda run: perform(run, node, args, kwargs)


def _call(task: Task, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    whole = bound(task, args, kwargs)
    assert isinstance(whole, Task)
    return _Call(
        task=whole.task,
        args=whole.args,
        kwargs=dict(whole.kwargs),
        options={**whole.options, OPTION: whole.policies},
        subtask_type=None,
        immutable=True,
    )
