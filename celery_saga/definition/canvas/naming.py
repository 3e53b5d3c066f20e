"""Finds steps of a canvas that cannot be where they are: of one name, or a pivot beside others."""

from __future__ import annotations

from collections.abc import Iterator

from celery_saga.definition.canvas.tree import Node, Parallel, Sequence, Task
from celery_saga.definition.names import key_base

__all__ = ["inner_pivots", "twice_named"]


def twice_named(node: Node) -> list[str]:
    """A sentence for each name given with `step(name=)` that a step before it has in its scope.

    A chain is a scope, and each part of a group is one.
    """
    return [
        f"{task.task}: the name {task.policies.name!r} is given to a step before it in the same chain too: "
        "give each its own name="
        for scope in _scopes(node)
        for task in _again(scope)
    ]


def inner_pivots(node: Node) -> list[str]:
    """A sentence for each step with `pivot=True` that others go on beside: only a whole run can go forward only."""
    parts = node.parts if isinstance(node, Sequence) else (node,)
    return [
        f"{task.task}: pivot=True is not for a member of a group or header, beside which others go on"
        for part in parts
        if isinstance(part, Parallel)
        for scope in _scopes(part)
        for task in scope
        if task.policies.pivot
    ]


def _scopes(node: Node) -> Iterator[list[Task]]:
    parts = node.parts if isinstance(node, Sequence) else (node,)
    yield [part for part in parts if isinstance(part, Task)]
    for part in parts:
        if isinstance(part, Parallel):
            for inner in part.parts:
                yield from _scopes(inner)


def _again(scope: list[Task]) -> Iterator[Task]:
    seen: set[str] = set()
    for task in scope:
        explicit = task.policies.name
        if explicit is not None and explicit in seen:
            yield task
        seen.add(explicit or key_base(task.task))
