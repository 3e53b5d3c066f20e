"""A checked graph as a value: its states, and the text that is stored of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "Branch", "Edge", "Graph", "State", "branches_of", "edges_of", "kind_of", "text_of"]

State = Mapping[str, Any]
"""One state, as it stands in the graph."""

KINDS = ("step", "map", "parallel", "choice", "wait", "signal", "end")
GIVES = frozenset({"step", "map", "parallel", "signal"})
"""Kinds of states that have an output of their own."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition: `word` is ok, fail, signal, timeout or cancel, of a choice its rule."""

    source: str
    target: str
    word: str
    where: str
    """Its place in the graph."""

    @property
    def gives(self) -> bool:
        """Whether the state that it leaves has been passed, so that its output is there."""
        return self.word in ("ok", "signal")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch that is a chain of states."""

    name: str
    start: str
    states: Mapping[str, State]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that was checked.

    `text` is JSON, the same for equal graphs, and `digest` its SHA-256 in hex.
    """

    name: str
    version: int
    start: str
    states: Mapping[str, State]
    deadline_s: float | None
    on_failure: str
    text: str
    digest: str

    @classmethod
    def of_text(cls, text: str) -> Graph:
        """The graph of a text that `text_of` made of a checked one."""
        plain = json.loads(text)
        return cls(
            name=plain["name"],
            version=int(plain["version"]),
            start=plain["start"],
            states=plain["states"],
            deadline_s=plain.get("deadline_s"),
            on_failure=plain.get("on_failure", "compensate"),
            text=text,
            digest=hashlib.sha256(text.encode()).hexdigest(),
        )


def text_of(plain: Mapping[str, Any]) -> str:
    """JSON text of a graph: keys are sorted, but for branches, whose order is that of their results.

    Raises:
        ValueError, TypeError: it holds what JSON cannot express.
    """
    return json.dumps(_sorted(plain, ()), allow_nan=False, separators=(",", ":"))


def _sorted(value: Any, place: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        names = value if place[-2:] == ("parallel", "branches") else sorted(value)
        return {name: _sorted(value[name], (*place, name)) for name in names}
    return [_sorted(item, ()) for item in value] if isinstance(value, list) else value


def kind_of(state: State) -> str:
    """Its kind, one of `KINDS`."""
    return next(kind for kind in KINDS if kind in state)


def edges_of(name: str, state: State, where: str = "") -> Iterator[Edge]:
    """The transitions that leave a state, in its order.

    Args:
        where: the place of the state in the graph.
    """
    for index, rule in enumerate(state.get("choice", ())):
        word = "else" if "else" in rule else _condition(rule)
        key = "else" if "else" in rule else "to"
        yield Edge(name, rule[key], word, f"{where}.choice[{index}].{key}")
    for word, target in state.get("on", {}).items():
        yield Edge(name, target, word, f"{where}.on.{word}")


def branches_of(state: State) -> Iterator[Branch]:
    """The branches of a parallel state that are chains of states."""
    for name, branch in state.get("parallel", {}).get("branches", {}).items():
        if "states" in branch:
            yield Branch(name, branch["start"], branch["states"])


_SIGNS = {"eq": "=", "lt": "<", "gt": ">", "in": "in"}


def _condition(rule: Mapping[str, Any]) -> str:
    tests = " and ".join(f"{sign} {json.dumps(rule[word])}" for word, sign in _SIGNS.items() if word in rule)
    return f"{rule['path']} {tests}"
