"""Random canvases: described as plain values, from which the same canvas is built as often as one likes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from celery import Celery, chain, chord, group, signature
from hypothesis import strategies as st

NAMES = ("tell", "note", "sum_up")
"""Tasks of a canvas; each returns what it was given."""


def told(name: str) -> Any:
    """A function that returns its name and what it was called with."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return [name, list(args), kwargs] if kwargs else [name, list(args)]

    run.__name__ = name
    return run


def with_tasks(app: Celery) -> Celery:
    """The app, with the tasks of `NAMES`."""
    for name in NAMES:
        app.task(name=f"canvas_shapes.{name}", shared=False)(told(name))
    return app


@dataclass(frozen=True)
class Shape:
    """A canvas to build: what it is, and of what."""

    kind: str
    parts: tuple[Shape, ...] = ()
    name: str = NAMES[0]
    args: tuple[int, ...] = ()
    kwargs: tuple[tuple[str, int], ...] = ()
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        """As one would write it."""
        given = ", ".join([*map(str, self.args), *(f"{k}={v}" for k, v in self.kwargs)])
        options = f".set({self.options})" * bool(self.options)
        if self.kind in {"s", "si", "map", "starmap"}:
            return f"{self.name}.{self.kind}({given}){options}"
        return f"{self.kind}({', '.join(map(repr, self.parts))}){options}"

    def build(self, app: Celery) -> Any:
        """A new canvas, which shares nothing with those built before."""
        built = self._built(app)
        return built.set(**self.options) if self.options else built

    def _built(self, app: Celery) -> Any:
        task = app.tasks[f"canvas_shapes.{self.name}"]
        parts = [part.build(app) for part in self.parts]
        match self.kind:
            case "s" | "si":
                return getattr(task, self.kind)(*self.args, **dict(self.kwargs))
            case "map":
                return task.map(list(self.args))
            case "starmap":
                return task.starmap([(each, each + 1) for each in self.args])
            case "chain":
                return chain(*parts)
            case "group":
                return group(parts, app=app)
            case "chord":
                return chord(parts[:-1], parts[-1], app=app)
            case "|":
                return parts[0] | parts[1]
            case "chunks":
                return task.chunks([(each,) for each in self.args], 2).group()
            case "json":
                return signature(json.loads(json.dumps(parts[0])), app=app)
            case "clone":
                return parts[0].clone()
        raise ValueError(self.kind)


_numbers = st.lists(st.integers(0, 9), max_size=2).map(tuple)
_keywords = st.lists(st.tuples(st.sampled_from("kl"), st.integers(0, 9)), max_size=1).map(tuple)
_options = st.one_of(
    st.just({}), st.just({}), st.just({"queue": "slow"}), st.just({"priority": 3}), st.just({"time_limit": 60})
)

_tasks = st.builds(
    Shape,
    kind=st.sampled_from(["s", "s", "s", "si"]),
    name=st.sampled_from(NAMES),
    args=_numbers,
    kwargs=_keywords,
    options=_options,
)
_maps = st.builds(Shape, kind=st.sampled_from(["map", "starmap", "chunks"]), name=st.sampled_from(NAMES), args=_numbers)


def _of(kind: str, parts: st.SearchStrategy[Shape], low: int, high: int) -> st.SearchStrategy[Shape]:
    return st.builds(
        Shape, kind=st.just(kind), parts=st.lists(parts, min_size=low, max_size=high).map(tuple), options=_options
    )


def _inner(shapes: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    plain = st.just({})
    return st.one_of(
        _of("chain", shapes, 1, 3),
        _of("group", shapes, 0, 3),
        _of("chord", shapes, 1, 3),
        st.builds(Shape, kind=st.just("|"), parts=st.tuples(shapes, shapes), options=plain),
        st.builds(Shape, kind=st.sampled_from(["json", "clone"]), parts=st.tuples(shapes), options=plain),
    )


shapes = st.recursive(st.one_of(_tasks, _tasks, _maps), _inner, max_leaves=9)
"""Canvases of up to nine tasks, nested in any way."""
given_args = _numbers
given_kwargs = _keywords.map(dict)
