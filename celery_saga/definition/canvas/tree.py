"""A canvas as three kinds of nodes, without Celery, and as plain values that can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from celery_saga.definition.canvas.policies import policies_from_plain, policies_to_plain
from celery_saga.definition.step import StepOptions
from celery_saga.errors import InvalidPayload

__all__ = ["Node", "Parallel", "Sequence", "Task", "bound", "from_plain", "node_count", "to_plain"]

FORMAT = 1
"""Grows when stored canvases get another shape; what was stored before stays readable."""


@dataclass(frozen=True, slots=True)
class Task:
    """One step.

    `args` and `kwargs` are values as the codec brings them back. `options` go with the message (`queue`, `priority`,
    `time_limit`, ...); `policies` are those that `step()` gave.
    """

    task: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    immutable: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    policies: StepOptions = field(default_factory=StepOptions)


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other: each gets the result of the one before first. At least one part."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Parts side by side: each gets what the node gets; the result is their results, in order, as a list."""

    parts: tuple[Node, ...]


Node = Task | Sequence | Parallel


def bound(node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, immutable: bool = False) -> Node:
    """The node with arguments given to its first tasks, in front of their own; immutable ones take none.

    Args:
        immutable: its first tasks take none from now on.
    """
    match node:
        case Task():
            if node.immutable:
                return node
            return replace(
                node, args=(*args, *node.args), kwargs={**node.kwargs, **kwargs}, immutable=node.immutable or immutable
            )
        case Sequence():
            first, *others = node.parts
            return Sequence((bound(first, args, kwargs, immutable=immutable), *others))
        case Parallel():
            return Parallel(tuple(bound(part, args, kwargs, immutable=immutable) for part in node.parts))


def node_count(node: Node) -> int:
    """How many tasks it has."""
    return 1 if isinstance(node, Task) else sum(node_count(part) for part in node.parts)


def to_plain(node: Node) -> dict[str, Any]:
    """The node as values that the codec stores; `from_plain` makes an equal one of them."""
    return {"format": FORMAT, "canvas": _plain(node)}


def from_plain(plain: Any) -> Node:
    """The inverse of `to_plain`.

    Raises:
        InvalidPayload: it is no stored canvas, or one of a later version of celery_saga.
    """
    if not isinstance(plain, Mapping) or plain.get("format") != FORMAT:
        shown = plain.get("format") if isinstance(plain, Mapping) else type(plain).__name__
        raise InvalidPayload(
            f"the stored canvas has the format {shown!r}, and this version of celery_saga reads {FORMAT}; it was left "
            "as it is. Upgrade the workers.",
            path="canvas",
        )
    try:
        return _node(plain["canvas"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidPayload(
            f"the stored canvas is damaged: {type(error).__name__}: {error}; it was left as it is.", path="canvas"
        ) from error


def _plain(node: Node) -> dict[str, Any]:
    if isinstance(node, Sequence):
        return {"sequence": [_plain(part) for part in node.parts]}
    if isinstance(node, Parallel):
        return {"parallel": [_plain(part) for part in node.parts]}
    plain: dict[str, Any] = {"task": node.task}
    if node.args:
        plain["args"] = list(node.args)
    if node.kwargs:
        plain["kwargs"] = dict(node.kwargs)
    if node.immutable:
        plain["immutable"] = True
    return plain | policies_to_plain(node.policies, node.options)


def _node(plain: Mapping[str, Any]) -> Node:
    if "sequence" in plain:
        return Sequence(tuple(_node(part) for part in plain["sequence"]))
    if "parallel" in plain:
        return Parallel(tuple(_node(part) for part in plain["parallel"]))
    policies, options = policies_from_plain(plain)
    return Task(
        plain["task"],
        tuple(plain.get("args", ())),
        plain.get("kwargs", {}),
        plain.get("immutable", False),
        options,
        policies,
    )
