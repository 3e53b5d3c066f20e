"""Draws a graph: its states, branches and transitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from celery_saga.core.spans import span_text
from celery_saga.definition.graph.model import Graph, State, edges_of, kind_of
from celery_saga.definition.mermaid import Area, Arrow, Node, Shape, flowchart

__all__ = ["drawn"]

_SHAPES = {
    "step": Shape.BOX,
    "map": Shape.TWIN,
    "parallel": Shape.TWIN,
    "choice": Shape.DIAMOND,
    "wait": Shape.ROUND,
    "signal": Shape.FLAG,
    "end": Shape.PILL,
}
_BEGIN = "begin of "


def drawn(graph: Graph) -> str:
    """The Mermaid text of a graph; broken lines are transitions and undos that follow when something went wrong."""
    begin = Node(_BEGIN, "start", Shape.CIRCLE)
    states = _as_reached(graph.start, graph.states)
    arrows = [Arrow(_BEGIN, graph.start), *_arrows(states)]
    nodes = [_node(name, state) for name, state in states.items()]
    return flowchart([begin, *nodes], arrows, _areas(states))


def _as_reached(start: str, states: Mapping[str, State]) -> dict[str, State]:
    """The states in the order in which one comes to them."""
    found: dict[str, State] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = states[name]
            waiting += [edge.target for edge in edges_of(name, states[name])]
    return found


def _node(name: str, state: State, id_: str | None = None) -> Node:
    kind = kind_of(state)
    return Node(id_ or name, "\n".join([name, *_lines(kind, state)]), _SHAPES[kind])


def _lines(kind: str, state: State) -> Iterator[str]:
    match kind:
        case "step":
            yield f"step {state['step']}"
        case "map":
            yield f"map {state['map']['task']} over {state['map']['items']}"
        case "wait":
            waited = state["wait"]
            yield f"wait {waited}" if isinstance(waited, str) else f"wait {span_text(waited)}"
        case "signal":
            yield f"signal {state['signal']}"
        case "end":
            yield "completed" if state["end"] is True else "failed"
        case _:
            yield kind
    if "undo" in state:
        undo = state["undo"]
        yield f"undo {undo if isinstance(undo, str) else undo['step']}"
    if "timeout_s" in state:
        yield f"at most {span_text(state['timeout_s'])}"


def _areas(states: Mapping[str, State]) -> list[Area]:
    areas = []
    for name, state in states.items():
        for branch_name, branch in state.get("parallel", {}).get("branches", {}).items():
            inner = _as_reached(branch["start"], branch["states"]) if "states" in branch else {}
            nodes = [_node(each, of) for each, of in inner.items()]
            if "step" in branch:
                nodes = [_node(branch_name, branch, _branch_id(name, branch_name))]
            areas.append(Area(f"{name}: {branch_name}", nodes, _areas(inner)))
    return areas


def _arrows(states: Mapping[str, State]) -> Iterator[Arrow]:
    for name, state in states.items():
        for edge in edges_of(name, state):
            yield Arrow(name, edge.target, edge.word, is_dotted=edge.word in ("fail", "timeout", "cancel"))
        for branch_name, branch in state.get("parallel", {}).get("branches", {}).items():
            yield Arrow(name, branch.get("start") or _branch_id(name, branch_name))
            yield from _arrows(branch.get("states", {}))


def _branch_id(state: str, branch: str) -> str:
    return f"{state}: {branch}"
