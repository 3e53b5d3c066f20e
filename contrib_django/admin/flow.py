"""Draws the library's Mermaid charts as SVG, so that they can be seen without a script or a network."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.utils.html import escape

__all__ = ["MOST", "flow"]

MOST = 120
"""Charts with more nodes are told as text alone."""

_NODE = re.compile(r'^\s*(n\d+)(\(\(\(|\(\[|\[\[|\(\(|\[|\(|\{|>)"(.*)"')
_ARROW = re.compile(r'^\s*(n\d+) (-->|-\.->)(?:\|"(.*)"\|)? (n\d+)$')
_CODE = re.compile(r"#(\d+);")
_LINE, _PAD, _GAP_X, _GAP_Y, _CHAR = 15, 9, 22, 30, 6.4
_WIDEST = 1000.0


@dataclass(slots=True)
class _Box:
    lines: list[str]
    shape: str
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


@dataclass(slots=True)
class _Chart:
    boxes: dict[str, _Box] = field(default_factory=dict)
    arrows: list[tuple[str, str, str, bool]] = field(default_factory=list)  # from, to, label, dotted


def flow(mermaid: str) -> str | None:
    """The chart as markup; None: it has no nodes, or too many to be seen.

    Args:
        mermaid: as `celery_saga.definition.mermaid.flowchart` writes it.
    """
    chart = _read(mermaid)
    if not chart.boxes or len(chart.boxes) > MOST:
        return None
    width, height = _lay_out(chart)
    parts = [
        f'<svg class="saga-flow" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="Diagram of {len(chart.boxes)} nodes">'
        '<defs><marker id="saga-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="saga-tip" d="M0 0L8 4L0 8z"/></marker></defs>',
        *(part for arrow in chart.arrows for part in _arrow(chart, *arrow)),
        *(part for box in chart.boxes.values() for part in _box(box)),
        "</svg>",
    ]
    return "".join(parts)


def _read(mermaid: str) -> _Chart:
    chart = _Chart()
    for line in mermaid.splitlines():
        if found := _ARROW.match(line):
            source, kind, label, target = found.groups()
            chart.arrows.append((source, target, _plain(label or ""), kind != "-->"))
        elif found := _NODE.match(line):
            name, shape, label = found.groups()
            chart.boxes[name] = _Box(_plain(label).split("\n"), shape)
    chart.arrows = [each for each in chart.arrows if each[0] in chart.boxes and each[1] in chart.boxes]
    return chart


def _plain(label: str) -> str:
    return _CODE.sub(lambda found: chr(int(found[1])), label.replace("<br/>", "\n"))


def _lay_out(chart: _Chart) -> tuple[float, float]:
    """Layers from top to bottom by the longest way; undos stand beside what they undo. The size of the whole."""
    for box in chart.boxes.values():
        box.lines = [line if len(line) <= 36 else line[:35] + "…" for line in box.lines]
        box.width = max(len(line) for line in box.lines) * _CHAR + 2 * _PAD + 8
        box.height = len(box.lines) * _LINE + 2 * _PAD - 4
    for _ in range(len(chart.boxes)):
        moved = False
        for source, target, _label, dotted in chart.arrows:
            least = chart.boxes[source].layer + (0 if dotted else 1)
            if chart.boxes[target].layer < least <= len(chart.boxes):
                chart.boxes[target].layer, moved = least, True
        if not moved:
            break
    return _placed(chart)


def _placed(chart: _Chart) -> tuple[float, float]:
    """Each layer from left to right, in several lines where it is wide. The size of the whole."""
    layers: dict[int, list[_Box]] = defaultdict(list)
    for box in chart.boxes.values():
        layers[box.layer].append(box)
    widest, y = 0.0, 4.0
    for layer in sorted(layers):
        x, highest = 4.0, 0.0
        for box in layers[layer]:
            if x > 4.0 and x + box.width > _WIDEST:
                x, y, highest = 4.0, y + highest + _GAP_Y / 2, 0.0
            box.x, box.y = x, y
            x, highest = x + box.width + _GAP_X, max(highest, box.height)
            widest = max(widest, x - _GAP_X)
        y += highest + _GAP_Y
    return widest + 8, y - _GAP_Y + 8


def _box(box: _Box) -> Iterator[str]:
    round_ = {"([": box.height / 2, "(": 10, "((": box.height / 2, "(((": box.height / 2}.get(box.shape, 3)
    shape = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{round_:.0f}"'
    yield f'<rect class="saga-node" {shape}/>'
    if box.shape == "[[":  # twins: a frame within
        yield (
            f'<path class="saga-node" d="M{box.x + 5:.1f} {box.y:.1f}v{box.height:.1f}'
            f'M{box.x + box.width - 5:.1f} {box.y:.1f}v{box.height:.1f}"/>'
        )
    for number, line in enumerate(box.lines):
        y = box.y + _PAD + 8 + number * _LINE
        yield f'<text x="{box.x + box.width / 2:.1f}" y="{y:.1f}" text-anchor="middle">{escape(line)}</text>'


def _arrow(chart: _Chart, source: str, target: str, label: str, dotted: bool) -> Iterator[str]:
    begin, end = chart.boxes[source], chart.boxes[target]
    kind = "saga-arrow saga-arrow-dotted" if dotted else "saga-arrow"
    if begin.layer == end.layer:
        y = begin.y + begin.height / 2
        x1, x2 = (begin.x + begin.width, end.x) if begin.x < end.x else (begin.x, end.x + end.width)
        path = f"M{x1:.1f} {y:.1f}L{x2:.1f} {y:.1f}"
        middle = (x1 + x2) / 2, y - 4
    else:
        x1, y1 = begin.x + min(begin.width, 160) / 2, begin.y + begin.height
        x2, y2 = end.x + min(end.width, 160) / 2, end.y
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + 16:.1f} {x2:.1f} {y2 - 16:.1f} {x2:.1f} {y2:.1f}"
        middle = (x1 + x2) / 2 + 4, (y1 + y2) / 2
    yield f'<path class="{kind}" marker-end="url(#saga-tip)" d="{path}"/>'
    if label and not dotted:
        yield f'<text x="{middle[0]:.1f}" y="{middle[1]:.1f}">{escape(label)}</text>'
