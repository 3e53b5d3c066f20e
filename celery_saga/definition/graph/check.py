"""Finds everything that is wrong with a graph, before a run can meet it."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from celery_saga.definition.graph import paths, reach
from celery_saga.definition.graph.model import Graph, State, branches_of, edges_of, kind_of, text_of
from celery_saga.definition.graph.shape import Fault, faults, is_sound, under
from celery_saga.errors import DefinitionError

__all__ = ["all_faults", "checked"]

_AN_END: State = {"end": True}


def checked(given: Mapping[str, Any] | str) -> Graph:
    """The graph, where nothing is wrong with it.

    Args:
        given: the graph, or JSON text of it.
    Raises:
        DefinitionError: naming everything that is wrong; nothing was registered.
    """
    plain, found = _plain(given)
    found = found or all_faults(plain)
    if found:
        name = plain.get("name") if isinstance(plain, dict) else None
        raise DefinitionError(_told(name if isinstance(name, str) else None, found))
    return Graph.of_text(text_of(plain))


def all_faults(plain: object) -> list[Fault]:
    """What is wrong with a graph of JSON values; states that are malformed are not looked at any further."""
    found = faults(plain)
    states = plain.get("states") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(states, dict) or not states:
        return found
    level = _Level(plain.get("start"), states, "", {"input"})
    return [*found, *_faults_of(level), *_same_names(level)]


def _told(name: str | None, found: list[Fault]) -> str:
    what = "the graph" if name is None else f"graph {name!r}"
    count = "1 fault" if len(found) == 1 else f"{len(found)} faults"
    lines = "".join(f"\n- {fault}" for fault in found)
    return f"{what} has {count}; nothing was registered:{lines}"


def _plain(given: object) -> tuple[Any, list[Fault]]:
    """The graph as JSON values."""
    try:
        if isinstance(given, str):
            given = json.loads(given, object_pairs_hook=_told_apart)
        keys = list(_odd_keys(given, ""))
        if keys:
            return None, [Fault(where, "is a key that is no text, as JSON has it") for where in keys]
        return json.loads(json.dumps(given, allow_nan=False, default=_refuse)), []
    except (ValueError, TypeError, RecursionError) as error:
        return None, [Fault("", f"is no JSON: {error}")]


def _told_apart(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key that comes twice would hide what stands behind it first."""
    found = dict(entries)
    if len(found) < len(entries):
        names = [name for name, _ in entries]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} comes twice in one object")
    return found


def _refuse(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} is {type(value).__name__}; take texts, numbers, true, false, null, lists and objects")


def _odd_keys(value: object, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if not isinstance(key, str):
                yield under(where, repr(key))
            else:
                yield from _odd_keys(entry, under(where, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _odd_keys(item, f"{where}[{index}]")


@dataclass
class _Level:
    """States that follow one another: of the graph, or of one branch.

    `outer`: what paths in the first state may begin at. `known`: the same for each state; None where too little is
    sound to tell. `around`: these states, and those around the branch.
    """

    start: object
    states: Mapping[str, Any]
    where: str
    outer: set[str] | None
    around: Mapping[str, Any] = field(default_factory=dict)
    known: dict[str, set[str]] | None = None
    sound: dict[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.around = {**self.around, **self.states}
        self.sound = {name: state for name, state in self.states.items() if is_sound("state", state)}
        if isinstance(self.start, str) and self.is_whole and self.outer is not None and self.start in self.states:
            self.known = reach.passed_before(self.start, self.sound, reach.edges_among(self.sound), self.outer)

    @property
    def is_whole(self) -> bool:
        """Every state is sound and leads to states that are there."""
        return len(self.sound) == len(self.states) and all(
            edge.target in self.states for name, state in self.sound.items() for edge in edges_of(name, state)
        )

    def place(self, name: str) -> str:
        """Where a state stands in the graph."""
        return under(self.where, f"states.{name}")

    def levels(self) -> Iterator[_Level]:
        """Those of the branches."""
        for name, state in self.sound.items():
            for branch in branches_of(state):
                where = f"{self.place(name)}.parallel.branches.{branch.name}"
                outer = None if self.known is None else self.known.get(name)
                yield _Level(branch.start, branch.states, where, outer, self.around)


def _faults_of(level: _Level) -> Iterator[Fault]:
    yield from _targets(level)
    yield from _ways(level)
    for name, state in level.sound.items():
        where = level.place(name)
        yield from _of_kind(level, state, where)
        yield from _retries(state, where)
        yield from _paths(level, name, state, where)
    for inner in level.levels():
        yield from _faults_of(inner)


def _targets(level: _Level) -> Iterator[Fault]:
    if isinstance(level.start, str) and level.start not in level.states:
        yield _no_state(level, level.start, under(level.where, "start"))
    for name, state in level.sound.items():
        for edge in edges_of(name, state, level.place(name)):
            if edge.target not in level.states:
                yield _no_state(level, edge.target, edge.where)
            elif edge.word == "cancel" and "end" not in level.sound.get(edge.target, _AN_END):
                yield Fault(
                    edge.where,
                    f"leads to {edge.target!r}, but a cancel ends the forward part at once and undoes what was done: "
                    "no state is entered after it. Give the steps an undo, and name an end here or nothing",
                )


def _no_state(level: _Level, name: str, where: str) -> Fault:
    near = get_close_matches(name, list(level.states), 1)
    hint = f"; is {near[0]!r} meant?" if near else ""
    return Fault(where, f"names the state {name!r}, which is not there{hint}")


def _ways(level: _Level) -> Iterator[Fault]:
    """Reachability, where everything is there that it needs."""
    if not level.is_whole or not isinstance(level.start, str) or level.start not in level.states:
        return
    edges = reach.edges_among(level.sound)
    reached = reach.closure([level.start], edges)
    for name in level.sound:
        if name not in reached:
            yield Fault(level.place(name), f"is not reached from the start {level.start!r}")
    if not any(kind_of(state) == "end" for state in level.sound.values()):
        yield Fault(under(level.where, "states"), "has no end: a state with end: true or end: 'failed'")
        return
    stuck = [name for name in reach.endless(level.sound, edges) if name in reached]
    if stuck:
        yield Fault(under(level.where, "states"), f"has no way to an end from {', '.join(stuck)}")
    circles = reach.circles_of_choices(level.sound, edges)
    if circles:
        yield Fault(
            under(level.where, "states"),
            f"goes in a circle of nothing but choices ({', '.join(circles)}): a run would never leave it",
        )


def _same_names(level: _Level) -> Iterator[Fault]:
    """Paths name states without their branch, so each name is taken once in the whole graph."""
    places: dict[str, list[str]] = {}
    waiting = [level]
    while waiting:
        one = waiting.pop(0)
        for name in one.states:
            places.setdefault(name, []).append(one.place(name))
        waiting += one.levels()
    for name, found in places.items():
        if len(found) > 1:
            yield Fault(found[1], f"has the name {name!r}, which {found[0]} has too: give each state its own")


def _of_kind(level: _Level, state: State, where: str) -> Iterator[Fault]:
    on = state.get("on", {})
    if "timeout" in on and "timeout_s" not in state:
        yield Fault(f"{where}.on.timeout", "is never followed: the state has no timeout_s")
    rules = state.get("choice", ())
    for index, rule in enumerate(rules):
        if ("else" in rule) != (index == len(rules) - 1):
            what = "must be the last rule" if "else" in rule else "is the last rule: it must be the else"
            yield Fault(f"{where}.choice[{index}]", f"{what}, which says where to go when no other holds")
    waited = state.get("wait")
    if isinstance(waited, str) and not waited.startswith("$") and _instant(waited) is None:
        yield Fault(f"{where}.wait", f"is no instant: there is no {waited!r} in the calendar")
    if state.get("end") == "failed" and "output" in state:
        yield Fault(f"{where}.output", "is for end: true; a run that fails has an error and no output")


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _retries(state: State, where: str) -> Iterator[Fault]:
    places = [(where, state)]
    for name, branch in state.get("parallel", {}).get("branches", {}).items():
        places.append((f"{where}.parallel.branches.{name}", branch))
    for place, holder in places:
        for policy in ("retry", "undo_retry"):
            for word in ("on", "never_on"):
                for index, name in enumerate(holder.get(policy, {}).get(word, ())):
                    if "." not in name and not _is_builtin_error(name):
                        yield Fault(
                            f"{place}.{policy}.{word}[{index}]",
                            f"names {name!r}, which is no builtin error: write the class's full name, like "
                            f"shop.errors.{name}",
                        )


def _is_builtin_error(name: str) -> bool:
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, Exception)


def _paths(level: _Level, name: str, state: State, where: str) -> Iterator[Fault]:
    known = None if level.known is None else level.known.get(name)
    for path, place in _paths_of(state, where):
        if not paths.is_path(path):
            yield Fault(
                place, f"is no path: {path!r}. Write one like $.input.id or $.charge[0].id, and $$ for a text's own $"
            )
        elif paths.root_of(path) not in ({*level.around, "input", reach.ERROR} if known is None else known):
            yield Fault(place, _unknown_root(level, name, paths.root_of(path), path))
        else:
            yield from _entries(level, path, place)


def _entries(level: _Level, path: str, place: str) -> Iterator[Fault]:
    """Outputs whose entries the graph itself names."""
    root, entry = paths.root_of(path), paths.first_of(path)
    state = level.around.get(root)
    allowed: tuple[str, ...] = ()
    if root == reach.ERROR:
        allowed = ("state", "type", "message", "step")
    elif isinstance(state, dict) and is_sound("state", state) and kind_of(state) in ("map", "parallel"):
        said = state[kind_of(state)]
        if said.get("on_failure") == "collect":
            allowed = ("succeeded", "failed", "results")
        elif "branches" in said:
            allowed = tuple(said["branches"])
    if allowed and entry is not None and entry not in allowed:
        yield Fault(place, f"reads {path!r}, but $.{root} has no {entry!r}: it has {', '.join(allowed)}")


def _paths_of(state: State, where: str) -> Iterator[tuple[str, str]]:
    """Paths in a state, without those in the states of its branches."""
    holders = [(where, state)]
    for name, branch in state.get("parallel", {}).get("branches", {}).items():
        if "states" not in branch:
            holders.append((f"{where}.parallel.branches.{name}", branch))
    for place, holder in holders:
        for word in ("args", "kwargs", "output"):
            yield from paths.paths_in(holder.get(word), f"{place}.{word}")
        undo = holder.get("undo")
        if isinstance(undo, dict):
            for word in ("args", "kwargs"):
                yield from paths.paths_in(undo.get(word), f"{place}.undo.{word}")
    yield from paths.paths_in(state.get("wait"), f"{where}.wait")
    for word in ("items", "args", "kwargs"):
        yield from paths.paths_in(state.get("map", {}).get(word), f"{where}.map.{word}")
    for index, rule in enumerate(state.get("choice", ())):
        for word in ("path", "eq", "lt", "gt", "in"):
            yield from paths.paths_in(rule.get(word), f"{where}.choice[{index}].{word}")


def _unknown_root(level: _Level, name: str, root: str, path: str) -> str:
    if root == reach.ERROR:
        return f"reads {path!r}, but no transition fail or timeout leads here, so that there is no error"
    if root == name:
        return f"reads {path!r}, the state's own output, which is not there yet (an undo that is a name gets it first)"
    if root in level.around:
        return f"reads {path!r}, but no way to {name!r} passes the state {root!r} and takes its output"
    near = get_close_matches(root, ["input", *level.around], 1)
    hint = f"; is $.{near[0]} meant?" if near else ""
    return f"reads {path!r}, but there is no state {root!r} that could have been passed here{hint}"
