"""What the runs of a chaos do, as values: trees of steps, joins, scopes, children, waits and sleeps, grown by dice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import count
from random import Random
from typing import Any


@dataclass(frozen=True)
class Do:
    """One step with one effect in the outside world; what raises, raises before its effect.

    Args:
        fails: it always raises the declared error.
        flaky: so many failures come before its success.
        dies: its first attempt kills its own process, `before` or `after` the effect.
        work_s: how long it takes, half of it before the effect.
        undo: `none`, `plain`, `flaky` (raises twice) or `broken` (always raises).
    """

    name: str
    fails: bool = False
    flaky: int = 0
    dies: str = ""
    work_s: float = 0.0
    undo: str = "plain"


@dataclass(frozen=True)
class Book:
    """A transactional step: its effect is a row beside the sagas' own, in one transaction with its checkpoint."""

    name: str


@dataclass(frozen=True)
class Sleep:
    """A timer."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Wait:
    """A wait for the signal of its name; without a time-out it lasts until somebody sends it."""

    name: str
    timeout_s: float | None


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Join:
    """A group, or a map over functions."""

    parts: tuple[Node, ...]
    is_map: bool
    concurrency: int | None
    collects: bool


@dataclass(frozen=True)
class Race:
    """Arms by their numbers; with `late_s`, seconds after which nobody has won."""

    name: str
    arms: tuple[Node, ...]
    late_s: float | None


@dataclass(frozen=True)
class Caught:
    """A body that goes on after the declared error of this, having undone it where it is a scope."""

    name: str
    node: Node
    is_scope: bool


@dataclass(frozen=True)
class Child:
    """A run of its own."""

    name: str
    node: Node


Node = Do | Book | Sleep | Wait | Sequence | Join | Race | Caught | Child
_KINDS = {kind.__name__: kind for kind in (Do, Book, Sleep, Wait, Sequence, Join, Race, Caught, Child)}


def to_plain(node: Node) -> dict[str, Any]:
    """As JSON takes it."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(each) for each in value]
        return to_plain(value) if type(value).__name__ in _KINDS else value

    return {"kind": type(node).__name__, **{each.name: plain(getattr(node, each.name)) for each in fields(node)}}


def from_plain(told: dict[str, Any]) -> Node:
    """What `to_plain` was given."""

    def node(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(node(each) for each in value)
        return from_plain(value) if isinstance(value, dict) else value

    made: Any = _KINDS[told["kind"]]
    return made(**{name: node(value) for name, value in told.items() if name != "kind"})  # type: ignore[no-any-return]


def inner(node: Node) -> tuple[Node, ...]:
    """The nodes right inside."""
    match node:
        case Sequence(nodes=nodes) | Join(parts=nodes) | Race(arms=nodes):
            return nodes
        case Caught(node=only) | Child(node=only):
            return (only,)
        case _:
            return ()


def walk(node: Node, *, into_children: bool = True) -> Iterator[Node]:
    """It and all below it, from the top; a child's inside belongs to another run."""
    yield node
    if into_children or not isinstance(node, Child):
        for each in inner(node):
            yield from walk(each, into_children=into_children)


class Grower:
    """Grows trees from dice. Names are unique within a tree, `n0`, `n1`, …"""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._numbers = count()

    def tree(self) -> Node:
        """One run's: a sequence of two to four, whose last may refuse, so that all of it is undone."""
        self._numbers = count()
        nodes = [self._node(2, in_child=False) for _ in range(self._dice.randint(2, 4))]
        ends = self._dice.random()
        if ends < 0.3:
            nodes.append(Do(self._name(), fails=True, undo="none"))
        if ends < 0.04:  # at the top only: a scope whose undo is used up parks its run instead
            nodes.insert(0, Do(self._name(), undo="broken"))
        return Sequence(tuple(nodes))

    def _name(self) -> str:
        return f"n{next(self._numbers)}"

    def _node(self, depth: int, *, in_child: bool) -> Node:
        dice = self._dice
        if depth == 0 or dice.random() < 0.55:
            return self._leaf(in_child=in_child)
        grow: Callable[[], Node] = lambda: self._node(depth - 1, in_child=in_child)  # noqa: E731
        some = tuple(grow() for _ in range(dice.randint(1, 3)))
        match dice.choice(["sequence", "join", "join", "race", "scope", "caught", "child"]):
            case "sequence":
                return Sequence(some)
            case "join":
                return Join(some, dice.random() < 0.5, dice.choice([None, 1, 2]), dice.random() < 0.3)
            case "race":
                return Race(self._name(), some, dice.choice([None, None, 0.5, 3.0]))
            case "child":
                return Child(self._name(), Sequence(tuple(self._node(depth - 1, in_child=True) for _ in some)))
            case kind:
                return Caught(self._name(), Sequence(some), kind == "scope")

    def _leaf(self, *, in_child: bool) -> Node:
        dice, name = self._dice, self._name()
        kinds = ["do"] * 9 + ["book", "sleep"] + ([] if in_child else ["wait"])
        match dice.choice(kinds):
            case "book":
                return Book(name)
            case "sleep":
                return Sleep(name, dice.choice([0.2, 1.0, 3.0]))
            case "wait":
                return Wait(name, dice.choice([None, None, 2.0]))
            case _:
                return Do(
                    name,
                    fails=dice.random() < 0.08,
                    flaky=dice.choice([0] * 8 + [1, 2]),
                    dies=dice.choice([""] * 40 + ["before", "after"]),
                    work_s=dice.choice([0.0, 0.0, 0.05, 0.2, 0.8]),
                    undo=dice.choice(["plain"] * 6 + ["flaky", "none"]),
                )
