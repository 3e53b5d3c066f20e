"""Trees of groups, maps, races and sequences as values: how a body performs one, and what a run of it may give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from hypothesis import strategies as st

from celery_saga import Run, Signal, saga, step
from celery_saga.definition.results import Collected


class Boom(Exception):
    """What a failing step raises; declared by every saga here."""


@dataclass(frozen=True)
class Do:
    """One task.

    Args:
        fails: its only attempt raises.
        has_undo: it is given one.
        is_child: executed by a run of its own.
    """

    fails: bool
    has_undo: bool
    is_child: bool = False
    name: str = ""


@dataclass(frozen=True)
class Sequence:
    """One after the other; as a part, a function of several steps."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Join:
    """A group or a map of parts."""

    parts: tuple[Node, ...]
    is_map: bool
    form: str  # tuple, list, dict
    concurrency: int | None
    collects: bool


@dataclass(frozen=True)
class Race:
    """Arms by their numbers; a signal that may never come and a time-out are among them where it is timed."""

    arms: tuple[Node, ...]
    is_timed: bool


@dataclass(frozen=True)
class Caught:
    """A body goes on after the failure of this."""

    node: Node


Node = Do | Sequence | Join | Race | Caught

GO = Signal("go", str)
LATE_S = 3600

_steps: st.SearchStrategy[Node] = st.builds(Do, st.sampled_from([False, False, False, True]), st.booleans())
_children = st.builds(Do, st.booleans(), st.booleans(), st.just(True))
HALF_DONE = Sequence((Do(fails=False, has_undo=True), Do(fails=True, has_undo=False)))
_leaves = st.one_of(_steps, _steps, st.just(HALF_DONE), _children)


def _bigger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(inner, max_size=4).map(tuple)
    bound = st.one_of(st.none(), st.integers(1, 3))
    return st.one_of(
        st.builds(Sequence, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Join, some, st.booleans(), st.sampled_from(["tuple", "list", "dict"]), bound, st.booleans()),
        st.builds(Race, st.lists(inner, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(Caught, inner),
    )


trees = st.recursive(_leaves, _bigger, max_leaves=7)


def named(node: Node, numbers: Callable[[], int] | None = None) -> Node:
    """The same tree, with a name of its own for each of its tasks."""
    numbers = numbers or count().__next__
    match node:
        case Do():
            return replace(node, name=f"t{numbers()}")
        case Sequence(nodes):
            return Sequence(tuple(named(each, numbers) for each in nodes))
        case Join():
            return replace(node, parts=tuple(named(each, numbers) for each in node.parts))
        case Race():
            return replace(node, arms=tuple(named(each, numbers) for each in node.arms))
        case Caught(inner):
            return Caught(named(inner, numbers))


# -- the model -------------------------------------------------------------------------------------------------------


def errors(node: Node) -> set[str]:
    """Names of the tasks whose error may leave this; empty: it succeeds."""
    match node:
        case Do(fails=fails, name=name):
            return {name} if fails else set()
        case Sequence(nodes):
            return next((found for found in map(errors, nodes) if found), set())
        case Join(parts=parts, collects=collects):
            return set() if collects else set().union(*map(errors, parts))
        case Race(arms, is_timed):
            found = [errors(arm) for arm in arms]
            return set() if is_timed or not all(found) else set().union(*found)
        case Caught():
            return set()


def reachable(node: Node) -> set[str]:
    """Names of the tasks that may be executed."""
    match node:
        case Do(name=name):
            return {name}
        case Sequence(nodes):
            found: set[str] = set()
            for each in nodes:
                found |= reachable(each)
                if errors(each):
                    break
            return found
        case Join(parts=parts):
            return set().union(*map(reachable, parts))
        case Race(arms=arms):
            return set().union(*map(reachable, arms))
        case Caught(inner):
            return reachable(inner)


def admits(node: Node, value: Any) -> bool:
    """Whether this, where it succeeds, may give this value."""
    match node:
        case Do(name=name):
            return bool(value == f"did {name}")
        case Sequence(nodes):
            return len(value) == len(nodes) and all(map(admits, nodes, value))
        case Join(parts=parts, collects=True):
            return len(value) == len(parts) and all(map(_ended, parts, value))
        case Join(parts=parts):
            return len(value) == len(parts) and all(map(admits, parts, value))
        case Race(arms, is_timed):
            name, gave = value
            if name in ("late", "go"):
                return is_timed and gave == (None if name == "late" else "now")
            arm = arms[int(name[1:])]
            return not errors(arm) and admits(arm, gave)
        case Caught(inner):
            return value in [f"caught {name}" for name in errors(inner)] if errors(inner) else admits(inner, value)


def _ended(part: Node, told: Any) -> bool:
    how, value = told
    return value in errors(part) if how == "error" else not errors(part) and admits(part, value)


def has_race(node: Node) -> bool:
    """Somewhere in it; then undos run before the run ends."""
    match node:
        case Race():
            return True
        case Do():
            return False
        case Sequence(nodes):
            return any(map(has_race, nodes))
        case Join(parts=parts):
            return any(map(has_race, parts))
        case Caught(inner):
            return has_race(inner)


# -- the body --------------------------------------------------------------------------------------------------------


class Performer:
    """Performs trees.

    Args:
        do: the task of each `Do`; it gets the name and whether it fails.
        undo: its undo, which gets the name.
        item: as `do`, of one pair.
    """

    def __init__(self, do: Any, undo: Any, item: Any) -> None:
        self._do, self._undo, self._item = do, undo, item
        self.won: dict[str, str] = {}  # by the names of a race's tasks: who won, and wins in each replay

        @saga(name="random.child", errors=[Boom])
        def child(run: Run, name: str, fails: bool, has_undo: bool) -> str:  # noqa: FBT001
            return str(self.perform(run, Do(fails, has_undo, name=name)))

        @saga(name="random.tree", errors=[Boom])
        def body(run: Run) -> Any:
            return self.perform(run, self.tree)

        self.child, self.body = child, body
        self.tree: Node = Sequence(())

    def signature(self, node: Do) -> Any:
        if node.is_child:
            return self.child.s(node.name, node.fails, node.has_undo)
        return step(self._do.si(node.name, node.fails), undo=self._undo.si(node.name) if node.has_undo else None)

    def part(self, node: Node) -> Any:
        return self.signature(node) if isinstance(node, Do) else lambda run: self.perform(run, node)

    def perform(self, run: Run, node: Node) -> Any:
        match node:
            case Do(is_child=True):
                return run.child(self.child, node.name, node.fails, node.has_undo)
            case Do():
                return run.step(self.signature(node))
            case Sequence(nodes):
                return [self.perform(run, each) for each in nodes]
            case Join():
                return self._join(run, node)
            case Race():
                return self._race(run, node)
            case Caught(inner):
                try:
                    return self.perform(run, inner)
                except Boom as error:
                    return f"caught {error}"

    def _join(self, run: Run, node: Join) -> Any:
        names = [f"p{number}" for number in range(len(node.parts))]
        how: Any = {"concurrency": node.concurrency, "on_failure": "collect" if node.collects else "abort"}
        if node.is_map:
            items: Any = dict(zip(names, node.parts, strict=True)) if node.form == "dict" else list(node.parts)
            work: Any = self.perform
            if all(isinstance(each, Do) and not each.has_undo and not each.is_child for each in node.parts):
                work = self._item
                pairs = [[each.name, each.fails] for each in node.parts if isinstance(each, Do)]
                items = dict(zip(names, pairs, strict=True)) if node.form == "dict" else pairs
            got: Any = run.map(work, items, **how)
        else:
            parts = [self.part(each) for each in node.parts]
            given: Any = dict(zip(names, parts, strict=True)) if node.form == "dict" else parts
            got = run.group(*parts, **how) if node.form == "tuple" else run.group(given, **how)
        if isinstance(got, Collected):
            numbers = [str(number) for number in range(len(names))]
            assert [each.name for each in got.results] == (names if node.form == "dict" else numbers)
            return [["ok", each.output] if each.ok else ["error", str(each.error)] for each in got.results]
        if node.form == "dict":
            assert list(got) == names
            return list(got.values())
        assert isinstance(got, tuple) is (node.form == "tuple" and not node.is_map)
        return list(got)

    def _race(self, run: Run, node: Race) -> Any:
        arms: dict[str, Any] = {f"a{number}": self.part(each) for number, each in enumerate(node.arms)}
        if node.is_timed:
            arms |= {"go": GO, "late": LATE_S}
        won = run.race(**arms)
        assert self.won.setdefault(repr(node), won.name) == won.name
        return [won.name, won.value]
