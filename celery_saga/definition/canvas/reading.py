"""Reads a Celery canvas, as signatures or as their JSON, into nodes; what cannot be carried is refused in one go.

Theory of operation. Celery upgrades a canvas while it is built (`group | task` is a chord by the time it comes here)
and again while it is sent: chains in chains and groups in groups are one, and empty ones disappear from a chain. The
second half is what happens here, so that a canvas means what it means in Celery. The
options of a group go to each of its members, those of a chain to its first task, those of a chord to header and body,
and they win over the members' own, as they do when Celery sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from celery_saga.core import codec
from celery_saga.definition import declared
from celery_saga.definition.calls import OPTION, encode_args, is_task
from celery_saga.definition.canvas.naming import inner_pivots, twice_named
from celery_saga.definition.canvas.refusals import carried, problems
from celery_saga.definition.canvas.shape import inside, misshapen, options_in
from celery_saga.definition.canvas.tree import Node, Parallel, Sequence, Task, bound
from celery_saga.definition.step import StepOptions
from celery_saga.errors import DefinitionError, InvalidPayload

__all__ = ["read_canvas"]

_EMPTY = Sequence(())

_KINDS = {
    "celery.chain": "chain",
    "celery.group": "group",
    "celery.chord": "chord",
    "celery.chunks": "chunks",
    "celery.map": "map",
    "celery.starmap": "starmap",
}
_WHERE_TASKS = {"chain": "tasks", "group": "tasks"}


def read_canvas(canvas: object, what: str, left: str) -> Node:
    """The nodes of a canvas. It may be changed afterwards: nothing of it is kept.

    Args:
        canvas: a signature of a task, chain, group, chord, map, starmap or chunks, or the JSON of one.
        what: who asks, like `saga.durable()`.
        left: what was not done, like `nothing was started`.
    Raises:
        DefinitionError: it holds what a durable canvas does not carry; the text lists all of it.
        InvalidPayload: only that an argument cannot be stored.
    """
    reader = _Reader()
    node = reader.read(canvas, "", {}, in_header=False)
    if not reader.problems and isinstance(node, Sequence) and not node.parts:
        reader.refuse("", "it has no task")
    reader.problems += [] if reader.problems else [*twice_named(node), *inner_pivots(node)]
    if not reader.problems:
        return node
    if reader.unstorable is not None and len(reader.problems) == 1:
        raise reader.unstorable
    listed = "\n".join(f"- {problem}" for problem in reader.problems)
    raise DefinitionError(f"{what} cannot make this canvas durable; {left}.\n{listed}")


class _Reader:
    """One reading; collects what is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unstorable: InvalidPayload | None = None

    def refuse(self, path: str, problem: str) -> None:
        """Note a problem; reading goes on, to find the others."""
        self.problems.append(f"{path or 'the canvas'}: {problem}")

    def read(self, sig: Any, path: str, given: Mapping[str, Any], *, in_header: bool) -> Node:
        """The nodes of one signature; an empty sequence where it has no task or is wrong.

        Args:
            path: where it stands, like `chain[1].body`.
            given: options from what it is a member of, which win over its own.
        """
        if not isinstance(sig, Mapping) or not isinstance(sig.get("task"), str):
            self.refuse(path, f"there is no signature but {_shown(sig)}")
            return _EMPTY
        problem, kind = misshapen(sig), _kind(sig)
        if problem is not None:
            self.refuse(path, problem)
            return _EMPTY
        if kind is None:
            self.refuse(path, f"a signature of the kind {sig.get('subtask_type')!r} is not known")
            return _EMPTY
        place = path if kind == "task" or path else kind
        named = f"{place or 'the canvas'} ({sig['task']})" if kind == "task" else place
        options = options_in(sig)
        of = "" if kind in {"task", "map", "starmap", "chunks"} else kind
        for problem in problems(options, task=sig["task"], of=of, in_header=in_header):
            self.refuse(named, problem)
        merged = {**carried(options), **given}
        read: Callable[..., Node] = getattr(self, f"_{kind}")
        return read(sig, named if kind == "task" else place, merged, in_header)

    def _task(self, sig: Mapping[str, Any], path: str, options: Mapping[str, Any], _: bool) -> Node:
        name = sig["task"]
        if name.startswith("celery."):
            self.refuse(path, "Celery's own tasks are no steps: write a task that does the same")
        if _policies(sig).saga is None and any(name == f"saga.{saga.name}" for saga in declared.declared()):
            self.refuse(path, "the task that starts a saga is no step: write a saga that calls run.child() for it")
        kwargs = dict(inside(sig))
        return self._step(name, list(sig.get("args") or ()), kwargs, sig, path, options)

    def _chain(self, sig: Mapping[str, Any], path: str, options: Mapping[str, Any], in_header: bool) -> Node:
        parts: list[Node] = []
        empty: Node | None = None
        for place, member in self._members(sig, path):
            # What Celery hands to the first task that it sends.
            node = self.read(member, place, {} if parts else options, in_header=in_header)
            if _is_empty_group(member):
                empty = node
                continue
            parts += node.parts if isinstance(node, Sequence) else [node]
        if not parts and empty is not None:
            return empty
        return self._partial(sig, parts[0] if len(parts) == 1 else Sequence(tuple(parts)))

    def _group(self, sig: Mapping[str, Any], path: str, options: Mapping[str, Any], in_header: bool) -> Node:
        return self._parallel(self._members(sig, path), options, in_header)

    def _parallel(self, members: Iterator[tuple[str, Any]], options: Mapping[str, Any], in_header: bool) -> Parallel:
        parts: list[Node] = []
        for place, member in members:
            node = self.read(member, place, options, in_header=in_header)
            if isinstance(member, Mapping) and _kind(member) == "group" and isinstance(node, Parallel):
                parts += node.parts
            elif not isinstance(node, Sequence) or node.parts:
                parts.append(node)
        return Parallel(tuple(parts))

    def _chord(self, sig: Mapping[str, Any], path: str, options: Mapping[str, Any], in_header: bool) -> Node:
        inner = inside(sig)
        header, body = inner.get("header"), inner.get("body")
        if isinstance(header, Mapping) and (problem := misshapen(header)) is not None:
            self.refuse(f"{path}.header", problem)
            return _EMPTY
        if isinstance(header, Mapping) and _kind(header) in _WHERE_TASKS:
            # As in Celery: the header is a group of what is in the chain.
            for problem in problems(options_in(header), task="celery.group", of="group", in_header=True):
                self.refuse(f"{path}.header", problem)
            outer: Mapping[str, Any] = {**carried(options_in(header)), **options}
            members = self._members(header, f"{path}.header")
        else:
            outer = options
            listed = [header] if isinstance(header, Mapping) else header
            members = self._listed(listed, f"{path}.header")
        head: Node = self._parallel(members, outer, in_header=True)
        own = inner.get("kwargs") or {}
        if own or sig.get("immutable"):
            head = bound(head, (), own, immutable=bool(sig.get("immutable")))
        head = self._partial(sig, head)
        if body is None:
            self.refuse(path, "a chord without a body: write chord(header, body)")
            return _EMPTY
        tail = self.read(body, f"{path}.body", options, in_header=in_header)
        if isinstance(tail, Sequence) and not tail.parts:
            self.refuse(f"{path}.body", "the body of a chord has no task")
        return Sequence((head, *(tail.parts if isinstance(tail, Sequence) else (tail,))))

    def _chunks(self, sig: Mapping[str, Any], path: str, options: Mapping[str, Any], _: bool) -> Node:
        inner = inside(sig)
        count, items = inner.get("n"), list(inner.get("it") or ())
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            self.refuse(path, f"chunks of {count!r} items: give a whole number of at least 1")
            return _EMPTY
        slices = (items[start : start + count] for start in range(0, len(items), count))
        return Parallel(
            tuple(
                self._mapped("celery.starmap", sig, f"{path}[{index}]", items_, options)
                for index, items_ in enumerate(slices)
            )
        )

    def _map(self, sig: Mapping[str, Any], path: str, options: Mapping[str, Any], _: bool) -> Node:
        items = list(inside(sig).get("it") or ())
        return self._mapped(sig["task"], sig, path, items, options)

    _starmap = _map

    def _mapped(
        self, name: str, sig: Mapping[str, Any], path: str, items: list[Any], options: Mapping[str, Any]
    ) -> Node:
        mapped = inside(sig).get("task")
        task: object = mapped.get("task") if isinstance(mapped, Mapping) else getattr(mapped, "name", None)
        if not isinstance(task, str) or not (isinstance(mapped, Mapping) or is_task(mapped)):
            self.refuse(path, f"what it maps is no task but {_shown(mapped)}")
            return _EMPTY
        plain: dict[str, Any] = {
            "task": task,
            "args": [],
            "kwargs": {},
            "options": {},
            "subtask_type": None,
            "immutable": False,
        }
        return self._step(name, [], {"task": plain, "it": items}, {**sig, "immutable": True}, path, options)

    def _step(
        self,
        name: str,
        args: list[Any],
        kwargs: dict[str, Any],
        sig: Mapping[str, Any],
        path: str,
        options: Mapping[str, Any],
    ) -> Node:
        try:
            args, kwargs = codec.decode(encode_args([args, kwargs], name, None))
        except InvalidPayload as error:
            self.unstorable = self.unstorable or error
            self.refuse(path, str(error))
        return Task(
            name,
            tuple(args),
            kwargs,
            bool(sig.get("immutable")),
            dict(options),
            replace(_policies(sig), type=None),
        )

    def _partial(self, sig: Mapping[str, Any], node: Node) -> Node:
        """With the arguments that were given to the whole, which a chain and a chord keep beside their tasks."""
        args = tuple(sig.get("args") or ())
        return bound(node, args, {}) if args else node

    def _members(self, sig: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
        return self._listed(inside(sig).get("tasks"), path)

    def _listed(self, tasks: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(tasks, str | Mapping) or not hasattr(tasks, "__iter__"):
            self.refuse(path, f"there is no list of signatures but {_shown(tasks)}")
            return
        for index, task in enumerate(tasks):
            yield f"{path}[{index}]", task


def _kind(sig: Mapping[str, Any]) -> str | None:
    task, kind = sig.get("task"), sig.get("subtask_type")
    if kind is not None and not isinstance(kind, str):
        return None
    if kind in {"chain", "group", "chord", "chunks"}:
        return str(kind)
    named = _KINDS.get(task) if isinstance(task, str) else None
    return "task" if named is None and kind is None else named


def _policies(sig: Mapping[str, Any]) -> StepOptions:
    given = options_in(sig).get(OPTION)
    return given if isinstance(given, StepOptions) else StepOptions()


def _is_empty_group(member: Any) -> bool:
    """As Celery asks: without members; not a group of groups without members, which it executes."""
    return isinstance(member, Mapping) and _kind(member) == "group" and not inside(member).get("tasks")


def _shown(value: object) -> str:
    if is_task(value):
        name = value.name  # type: ignore[attr-defined]
        return f"the task {name!r}: write {name.rpartition('.')[2]}.s(...)"
    if hasattr(value, "id") and hasattr(value, "ready") and hasattr(value, "get"):
        return "a result, so it was sent already: write .s(...) instead of .delay(...)"
    if value is None:
        return "nothing"
    if callable(value):
        return f"the function {getattr(value, '__name__', value)!r}: make it a Celery task and write .s(...)"
    return f"{type(value).__name__}: write task.s(...)"
