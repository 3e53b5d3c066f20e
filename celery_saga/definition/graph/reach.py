"""What can happen in a graph: which states are reached, from where its end is, and what was passed before a state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from celery_saga.definition.graph.model import GIVES, Edge, State, edges_of, kind_of

__all__ = ["ERROR", "circles_of_choices", "closure", "edges_among", "endless", "passed_before"]

ERROR = "error"
"""What paths begin at that tell of the last error which a transition took."""

_TAKES_ERROR = ("fail", "timeout")


def edges_among(states: Mapping[str, State]) -> list[Edge]:
    """The transitions between these states; those to others are left out."""
    return [edge for name, state in states.items() for edge in edges_of(name, state) if edge.target in states]


def closure(begin: Iterable[str], edges: Iterable[Edge], *, back: bool = False) -> set[str]:
    """These states and all that follow them; or that they follow, going back."""
    following: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        source, target = (edge.target, edge.source) if back else (edge.source, edge.target)
        following[source].append(target)
    found: set[str] = set()
    waiting = list(begin)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following[name]
    return found


def endless(states: Mapping[str, State], edges: Collection[Edge]) -> list[str]:
    """The states from which no end is reached."""
    ends = [name for name, state in states.items() if kind_of(state) == "end"]
    # A cancel is nothing that a state waits for.
    ending = closure(ends, [edge for edge in edges if edge.word != "cancel"], back=True)
    return [name for name in states if name not in ending]


def circles_of_choices(states: Mapping[str, State], edges: Iterable[Edge]) -> list[str]:
    """The choices that can lead back to themselves through nothing but choices: a run would never leave them."""
    choices = {name for name, state in states.items() if kind_of(state) == "choice"}
    inner = [edge for edge in edges if edge.source in choices and edge.target in choices]
    return [
        name
        for name in states
        if name in choices and name in closure([e.target for e in inner if e.source == name], inner)
    ]


def passed_before(
    start: str, states: Mapping[str, State], edges: Collection[Edge], outer: set[str]
) -> dict[str, set[str]]:
    """For each state, what paths in it may begin at: `input`, `error`, and states that may have been passed.

    Args:
        outer: the same for the start.
    """
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        leaving[edge.source].append(edge)
    known: dict[str, set[str]] = {start: set(outer)}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        for edge in leaving[name]:
            brought = set(known[name])
            if edge.gives and kind_of(states[name]) in GIVES:
                brought.add(name)
            if edge.word in _TAKES_ERROR:
                brought.add(ERROR)
            if edge.target not in known or not brought <= known[edge.target]:
                known[edge.target] = known.get(edge.target, set()) | brought
                waiting.append(edge.target)
    return known
