"""What a tree may give, by its meaning alone: how it can fail, and what a completed run keeps of what it did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tests.chaos.trees import Book, Caught, Child, Do, Join, Node, Race, Sequence, Sleep, Wait, inner, walk

Fate = Literal["kept", "undone", "either"]
"""Of what a node did: it stays, its undo has to follow, or it depends on what the result does not tell."""


def errors(node: Node) -> set[str]:
    """Names of the steps whose error can leave it."""
    match node:
        case Do():
            return {node.name} if node.fails else set()
        case Sequence(nodes):
            found: set[str] = set()
            for each in nodes:
                found |= errors(each)
                if must_fail(each):
                    break
            return found
        case Join(parts=parts, collects=False):
            return set().union(*map(errors, parts))
        case Race(arms=arms, late_s=None) if all(map(errors, arms)):
            return set().union(*map(errors, arms))
        case Child(node=only):
            return errors(only)
        case _:
            return set()


def must_fail(node: Node) -> bool:
    """It cannot end without an error."""
    match node:
        case Do():
            return node.fails
        case Sequence(nodes) | Join(parts=nodes, collects=False):
            return any(map(must_fail, nodes))
        case Race(arms=arms, late_s=None):
            return bool(arms) and all(map(must_fail, arms))
        case Child(node=only):
            return must_fail(only)
        case _:
            return False


def ended_with(node: Node, error: str) -> bool:
    """A run of it can fail with this error."""
    return error in errors(node)


@dataclass
class Reading:
    """What the result of a completed run tells.

    Args:
        order: of the run, which is in what its signals say.
        fates: of the nodes of this run by name; of a child, of the child as a whole.
        problems: where the result is none that the tree can give.
    """

    order: str
    fates: dict[str, Fate]
    problems: list[str]

    def read(self, node: Node, value: Any) -> None:
        """Note what became of everything in it."""
        match node:
            case Do() | Book():
                self._claim(value == f"did {node.name}" and not must_fail(node), node, value)
                self.fates[node.name] = "kept"
            case Child():
                self.fates[node.name] = "kept"
                self._claim(not must_fail(node), node, value)
                Reading(f"{self.order}/{node.name}", {}, self.problems).read(node.node, value)
            case Sleep():
                self._claim(value is None, node, value)
            case Wait():
                self._claim(value == told(self.order, node) or (node.timeout_s and value == "late"), node, value)
            case Sequence(nodes):
                self._each(nodes, value, node)
            case Join(parts=parts, collects=True):
                self._collected(parts, value)
            case Join(parts=parts):
                self._each(parts, value, node)
            case Race():
                self._race(node, value)
            case Caught():
                self._caught(node, value)

    def _each(self, nodes: tuple[Node, ...], value: Any, whole: Node) -> None:
        self._claim(len(value) == len(nodes), whole, value)
        for each, its in zip(nodes, value, strict=False):
            self.read(each, its)

    def _collected(self, parts: tuple[Node, ...], value: Any) -> None:
        for part, (how, its) in zip(parts, value, strict=True):
            if how == "ok":
                self.read(part, its)
            else:
                self._claim(ended_with(part, its), part, its)
                self._mark(part, "either")

    def _race(self, node: Race, value: Any) -> None:
        name, its = value
        for arm in node.arms:
            self._mark(arm, "undone")
        if name == "late":
            self._claim(node.late_s is not None and its is None, node, value)
        else:
            self.read(node.arms[int(name[1:])], its)

    def _caught(self, node: Caught, value: Any) -> None:
        how, its = value
        if how == "went":
            self.read(node.node, its)
            return
        self._claim(ended_with(node.node, its), node, value)
        self._mark(node.node, "undone" if node.is_scope else "either")

    def _mark(self, node: Node, fate: Fate) -> None:
        if isinstance(node, Do | Book | Child):
            self.fates[node.name] = fate
        if not isinstance(node, Child):
            for each in inner(node):
                self._mark(each, fate)

    def _claim(self, holds: Any, node: Node, value: Any) -> None:
        if not holds:
            self.problems.append(f"{type(node).__name__} {getattr(node, 'name', '')} of {self.order} gave {value!r}")


def told(order: str, wait: Wait) -> str:
    """What a signal to this wait says."""
    return f"{wait.name} of {order}"


def regions(node: Node, here: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of each step and child of a run, by name: the arms and scopes around it, outermost first."""
    match node:
        case Do() | Book() | Child():
            yield node.name, here
        case Race(arms=arms):
            for number, arm in enumerate(arms):
                yield from regions(arm, (*here, f"{node.name}:{number}"))
        case Caught(node=only, is_scope=True):
            yield from regions(only, (*here, node.name))
        case _:
            for each in inner(node):
                yield from regions(each, here)


def part_of(tree: Node, order: str) -> Node:
    """What the run of an order performs: `o7` the whole tree, `o7/n3` what is in the child n3 of it."""
    _, *names = order.split("/")
    for name in names:
        (child,) = [each for each in walk(tree) if isinstance(each, Child) and each.name == name]
        tree = child.node
    return tree


def broken(node: Node) -> set[str]:
    """Names of the steps of this run whose undo never succeeds."""
    return {each.name for each in walk(node, into_children=False) if isinstance(each, Do) and each.undo == "broken"}
