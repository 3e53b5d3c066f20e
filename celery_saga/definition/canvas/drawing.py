"""Draws a canvas: its tasks as boxes, what is side by side between two circles."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from celery_saga.definition import mermaid
from celery_saga.definition.canvas.tree import Node, Parallel, Sequence, Task
from celery_saga.definition.mermaid import Arrow, Shape, flowchart

__all__ = ["drawn"]

_SHOWN_PARTS = 12


def drawn(node: Node) -> str:
    """Mermaid text of a canvas, from top to bottom; of many parts side by side the first are drawn."""
    drawing = _Drawing()
    first, last = drawing.draw(node)
    start = drawing.add("start", Shape.CIRCLE)
    end = drawing.add("end", Shape.DOUBLE_CIRCLE)
    arrows = [Arrow(start, first), *drawing.arrows, Arrow(last, end)]
    return flowchart(drawing.nodes, arrows)


@dataclass
class _Drawing:
    """What has been drawn so far; nodes are known by their number."""

    nodes: list[mermaid.Node] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def add(self, label: str, shape: Shape = Shape.BOX) -> str:
        id_ = str(len(self.nodes))
        self.nodes.append(mermaid.Node(id_, label, shape))
        return id_

    def draw(self, node: Node) -> tuple[str, str]:
        """Draw a node; where it begins and where it ends."""
        match node:
            case Task():
                return self._task(node)
            case Sequence():
                return self._sequence(node)
            case Parallel():
                return self._parallel(node)

    def _task(self, task: Task) -> tuple[str, str]:
        box = self.add(task.task)
        if task.policies.undo is not None:
            undo = self.add(f"undo: {task.policies.undo.task}", Shape.PILL)
            self.arrows.append(Arrow(box, undo, is_dotted=True))
        return box, box

    def _sequence(self, sequence: Sequence) -> tuple[str, str]:
        ends = [self.draw(part) for part in sequence.parts]
        self.arrows += [Arrow(before[1], after[0]) for before, after in pairwise(ends)]
        return ends[0][0], ends[-1][1]

    def _parallel(self, parallel: Parallel) -> tuple[str, str]:
        fork, join = self.add(f"{len(parallel.parts)} at once", Shape.ROUND), self.add("all in", Shape.ROUND)
        if not parallel.parts:
            self.arrows.append(Arrow(fork, join))
        for part in parallel.parts[:_SHOWN_PARTS]:
            first, last = self.draw(part)
            self.arrows += [Arrow(fork, first), Arrow(last, join)]
        if len(parallel.parts) > _SHOWN_PARTS:
            more = self.add(f"{len(parallel.parts) - _SHOWN_PARTS} more", Shape.TWIN)
            self.arrows += [Arrow(fork, more), Arrow(more, join)]
        return fork, join
