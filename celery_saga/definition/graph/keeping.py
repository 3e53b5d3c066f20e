"""Stores graphs where runs of them are ordered by a body: a client's start stores them by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from celery_saga.core.decision import Decision
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import StoredDefinition
from celery_saga.definition.declared import Declared
from celery_saga.definition.graph.build import graph_of
from celery_saga.definition.graph.model import Graph
from celery_saga.engine.start import refuse_another

__all__ = ["Keep", "keep_ordered"]


class Keep(Protocol):
    """`Store.put_definition`."""

    def __call__(self, name: str, version: int, *, digest: str, graph_text: str) -> StoredDefinition:
        """Store a definition unless its name and version are taken; what is stored under them now."""


def keep_ordered(decision: Decision, find: Callable[[str, int], Declared | None], keep: Keep, kept: set[str]) -> None:
    """Store the graphs of the runs that a decision starts, before it is written: a worker may not know them.

    Args:
        find: the saga of a name and version.
        kept: digests of what this process has stored; grows.
    Raises:
        DefinitionError: another graph is stored under a name and version; nothing was started.
        StoreUnavailable: the database is out of reach.
    """
    for graph in _started(decision, find):
        if graph.digest not in kept:
            stored = keep(graph.name, graph.version, digest=graph.digest, graph_text=graph.text)
            refuse_another(stored, graph.digest)
            kept.add(graph.digest)


def _started(decision: Decision, find: Callable[[str, int], Declared | None]) -> Iterator[Graph]:
    seen: set[tuple[str, int]] = set()
    for order in decision.orders:
        spec = StepSpec.from_text(order.spec_text).child if '"child"' in order.spec_text else None
        if spec is None or (order.task, spec.version) in seen:
            continue
        seen.add((order.task, spec.version))
        saga = find(order.task, spec.version)
        graph = None if saga is None else graph_of(saga.body)
        if graph is not None:
            yield graph
