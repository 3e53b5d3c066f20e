"""Draws flow charts as Mermaid text: of graphs, of canvases, of the steps of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Area", "Arrow", "Node", "Shape", "flowchart"]


class Shape(Enum):
    """What a node looks like: the text before and after its label."""

    BOX = ("[", "]")
    ROUND = ("(", ")")
    PILL = ("([", "])")
    DIAMOND = ("{", "}")
    FLAG = (">", "]")
    CIRCLE = ("((", "))")
    DOUBLE_CIRCLE = ("(((", ")))")
    TWIN = ("[[", "]]")


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Args:
        id: tells it from the others; any text.
        label: what it shows; line breaks are kept.
    """

    id: str
    label: str
    shape: Shape = Shape.BOX


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a node to a node, by their ids; dotted for what happens only when something goes wrong."""

    source: str
    target: str
    label: str = ""
    is_dotted: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """Nodes with a frame around them, and areas inside it."""

    label: str
    nodes: Sequence[Node] = ()
    areas: Sequence[Area] = field(default_factory=tuple)


def flowchart(nodes: Iterable[Node], arrows: Iterable[Arrow], areas: Iterable[Area] = ()) -> str:
    """The text of a chart, from top to bottom, with a line break at its end.

    Args:
        nodes: those outside of areas, in order.
        arrows: in order; both ends are ids of nodes that are given.
    """
    chart = _Chart()
    chart.draw(nodes, areas, "    ")
    for arrow in arrows:
        chart.arrow(arrow)
    return "\n".join(["flowchart TD", *chart.lines]) + "\n"


class _Chart:
    """Lines, and the short names under which Mermaid knows the nodes: ids may hold what it does not take."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._short: dict[str, str] = {}
        self._areas = 0

    def draw(self, nodes: Iterable[Node], areas: Iterable[Area], indent: str) -> None:
        for node in nodes:
            short = self._short[node.id] = f"n{len(self._short)}"
            before, after = node.shape.value
            self.lines.append(f'{indent}{short}{before}"{_quoted(node.label)}"{after}')
        for area in areas:
            self.lines.append(f'{indent}subgraph a{self._areas}["{_quoted(area.label)}"]')
            self._areas += 1
            self.draw(area.nodes, area.areas, indent + "    ")
            self.lines.append(f"{indent}end")

    def arrow(self, arrow: Arrow) -> None:
        line = "-.->" if arrow.is_dotted else "-->"
        label = f'|"{_quoted(arrow.label)}"|' if arrow.label else ""
        self.lines.append(f"    {self._short[arrow.source]} {line}{label} {self._short[arrow.target]}")


def _quoted(text: str) -> str:
    """A label's text inside double quotes: what Mermaid or its Markdown would take for its own is written as codes."""
    return _OWN.sub(lambda found: f"#{ord(found[0])};", text).replace("\n", "<br/>")


# An underscore inside a word means nothing to Markdown.
_OWN = re.compile(r'["#<>&`*\\|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])')
