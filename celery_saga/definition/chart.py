"""Draws what a saga follows, where that is data, and the steps of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from celery_saga.core.records import StepKind, StepRecord
from celery_saga.definition.mermaid import Arrow, Node, Shape, flowchart
from celery_saga.errors import DefinitionError

__all__ = ["of_saga", "of_steps"]

_SHAPES = {
    StepKind.SIGNAL: Shape.FLAG,
    StepKind.TIMER: Shape.ROUND,
    StepKind.UNDO: Shape.PILL,
    StepKind.JOIN: Shape.TWIN,
    StepKind.CHILD: Shape.TWIN,
}
_SHOWN_PARTS = 12


def of_saga(body: object, saga: str) -> str:
    """The Mermaid text of what a body follows: its attribute `diagram` draws it.

    Raises:
        DefinitionError: it is a function like any other.
    """
    draw = getattr(body, "diagram", None)
    if not callable(draw):
        raise DefinitionError(
            f"saga {saga!r} is a function, whose steps are known from its runs only; nothing was drawn. Give one of "
            f"them: {saga}.diagram(run), or celery saga diagram RUN."
        )
    return str(draw())


def of_steps(steps: Iterable[StepRecord]) -> str:
    """The Mermaid text of the steps of a run, in the order in which they were ordered; undos hang on their steps.

    Of a join with many parts the first are drawn, and the others counted.
    """
    found = list(steps)
    rests = _rests(found)
    hidden = {part.key for rest in rests.values() for part in rest}
    shown = [step for step in found if not _is_in(step.key, hidden)]
    nodes = [*(_node(step) for step in shown), *(_rest_node(join, rest) for join, rest in rests.items())]
    arrows = [*_order(shown), *(Arrow(join, _rest_id(join)) for join in rests), *_undos(shown)]
    return flowchart(nodes, arrows)


def _node(step: StepRecord) -> Node:
    told = step.status.value if step.attempt <= 1 else f"{step.status.value} after {step.attempt} attempts"
    what = f"{step.kind.value} {step.task}" if step.task else step.kind.value
    return Node(step.key, f"{step.key}\n{what}\n{told}", _SHAPES.get(step.kind, Shape.BOX))


def _rests(steps: list[StepRecord]) -> dict[str, list[StepRecord]]:
    """Of each join that has too many parts, those that are not drawn."""
    parts: dict[str, list[StepRecord]] = defaultdict(list)
    for step in steps:
        if step.join_key is not None:
            parts[step.join_key].append(step)
    return {join: found[_SHOWN_PARTS:] for join, found in parts.items() if len(found) > _SHOWN_PARTS}


def _is_in(key: str, parts: set[str]) -> bool:
    """The key is one of these parts, or of something within one."""
    end = key.find("]")
    while end >= 0:
        if key[: end + 1] in parts:
            return True
        end = key.find("]", end + 1)
    return False


def _rest_node(join: str, rest: list[StepRecord]) -> Node:
    counts = Counter(part.status.value for part in rest)
    told = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    return Node(_rest_id(join), f"{len(rest)} more parts\n{told}", Shape.TWIN)


def _rest_id(join: str) -> str:
    return f"more of {join}"


def _order(steps: list[StepRecord]) -> Iterator[Arrow]:
    """Within a scope from each to the next; to a part from its join; into a scope from whose it is."""
    keys = {step.key for step in steps}
    last: dict[str, str] = {}
    for step in steps:
        if step.kind in {StepKind.UNDO, StepKind.CHORD}:
            continue
        if step.join_key is not None:
            source: str | None = step.join_key
        else:
            source = last.get(step.scope) or _before(step.scope, keys, last)
            last[step.scope] = step.key
        if source in keys:
            yield Arrow(source, step.key)


def _before(scope: str, keys: set[str], last: dict[str, str]) -> str | None:
    """What comes before the first step of a scope: the part that it is of, else the last step around it."""
    while scope:
        owner = scope[:-1]
        if owner in keys:
            return owner
        scope = owner[: owner.rfind("/") + 1]
        if scope in last:
            return last[scope]
    return None


def _undos(steps: list[StepRecord]) -> Iterator[Arrow]:
    keys = {step.key for step in steps}
    for step in steps:
        if step.kind is StepKind.UNDO and step.undo_of in keys:
            yield Arrow(step.undo_of, step.key, "undo", is_dotted=True)
