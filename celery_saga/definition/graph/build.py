"""Makes sagas of graphs: those that a project gives, and those that a worker finds stored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from celery_saga.definition import declared
from celery_saga.definition.graph.body import FailedEnd, body_of
from celery_saga.definition.graph.check import checked
from celery_saga.definition.graph.model import Graph, State, branches_of
from celery_saga.definition.options import SagaOptions, saga_options
from celery_saga.errors import DefinitionError

__all__ = ["from_graph", "graph_of", "of_text"]

S = TypeVar("S", bound=declared.Declared)

Make = Callable[..., S]
"""Makes a saga of a body, options and a key."""


def from_graph(
    make: Make[S],
    given: Mapping[str, Any] | str,
    key: str | Callable[..., str] | None,
    errors: Iterable[type[BaseException]],
) -> S:
    """See `Saga.from_graph`."""
    graph = checked(given)
    caller = sys._getframe(2)
    place = caller.f_code.co_qualname.replace("<module>", "")
    body = body_of(graph)
    # A body is told from another by its place, and by what is in it.
    body.__module__ = str(caller.f_globals.get("__name__", "?"))
    body.__qualname__ = f"{place}.<locals>." * bool(place) + body.__qualname__
    made = make(body, _options(graph, errors), key)
    declared.declare(made)
    return made


def of_text(make: Make[S], text: str) -> S | None:
    """The saga of a stored graph; None: it was stored by a version of celery_saga that knows more than this one."""
    try:
        graph = checked(text)
    except DefinitionError:
        return None
    return make(body_of(graph), _options(graph, ()), None)


def graph_of(body: object) -> Graph | None:
    """The graph that a body follows; None: it is another body."""
    found = getattr(body, "graph", None)
    return found if isinstance(found, Graph) else None


def _options(graph: Graph, errors: Any) -> SagaOptions:
    options = saga_options(
        name=graph.name,
        version=graph.version,
        errors=errors,
        signals=dict.fromkeys(_signals(graph.states)),
        retry=None,
        deadline=graph.deadline_s,
        on_failure=graph.on_failure,
        on_bug="suspend",
        on_undo_failure="continue",
        undo_retry=None,
        dispatch=None,
        queue=None,
        priority=None,
        lane=None,
        tags=(),
    )
    return replace(options, errors=(*options.errors, FailedEnd))


def _signals(states: Mapping[str, State]) -> Iterator[str]:
    for state in states.values():
        if "signal" in state:
            yield state["signal"]
        for branch in branches_of(state):
            yield from _signals(branch.states)
