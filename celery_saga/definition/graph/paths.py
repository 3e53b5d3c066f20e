"""Paths like `$.charge.lines[0].price`, and values that hold some: which they are, and what stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Missing", "first_of", "is_path", "paths_in", "read", "resolve", "root_of"]

_PATH = re.compile(r"\$\.(?P<root>[A-Za-z_][A-Za-z0-9_-]*)(?P<rest>(?:\.[^.\[\]\s]+|\[[0-9]+\])*)")
_PART = re.compile(r"\.([^.\[\]\s]+)|\[([0-9]+)\]")


class Missing(LookupError):
    """Nothing stands at a path."""


def is_path(text: str) -> bool:
    """Whether it is a path that can be read."""
    return _PATH.fullmatch(text) is not None


def root_of(path: str) -> str:
    """What a path begins at: `input`, `error`, or a state."""
    found = _PATH.fullmatch(path)
    assert found is not None, path
    return found["root"]


def first_of(path: str) -> str | None:
    """The first entry that a path leads to, behind what it begins at; None: it ends there."""
    found = _PATH.fullmatch(path)
    assert found is not None, path
    part = _PART.match(found["rest"])
    return None if part is None else part[1] or part[2]


def paths_in(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Each text in a value that stands for a path, whether or not it can be read, with its place."""
    if isinstance(value, str):
        if value.startswith("$") and not value.startswith("$$"):
            yield value, where
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from paths_in(entry, f"{where}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths_in(item, f"{where}[{index}]")


def resolve(value: Any, known: Mapping[str, Any]) -> Any:
    """The value with what stands at its paths.

    Args:
        known: the input, and the outputs of the states that were passed, by name.
    Raises:
        Missing: nothing stands at one of the paths.
    """
    if isinstance(value, str):
        if value.startswith("$$"):
            return value[1:]
        return read(value, known) if value.startswith("$") else value
    if isinstance(value, dict):
        return {name: resolve(entry, known) for name, entry in value.items()}
    return [resolve(item, known) for item in value] if isinstance(value, list) else value


def read(path: str, known: Mapping[str, Any]) -> Any:
    """What stands at a path.

    Raises:
        Missing: nothing does; its text says where the path ends.
    """
    found = _PATH.fullmatch(path)
    assert found is not None, path
    if found["root"] not in known:
        raise Missing(f"{path}: the run has not passed the state {found['root']!r}")
    value, place = known[found["root"]], f"$.{found['root']}"
    for part in _PART.finditer(found["rest"]):
        value = _entry(value, part[1] or part[2], path, place)
        place += part[0]
    return value


def _entry(value: Any, name: str, path: str, place: str) -> Any:
    if isinstance(value, list | tuple) and name.isascii() and name.isdigit():
        if int(name) < len(value):
            return value[int(name)]
        raise Missing(f"{path}: {place} has {len(value)} items")
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        raise Missing(f"{path}: {place} has no {name!r}")
    raise Missing(f"{path}: {place} is {type(value).__name__}, which has no {name!r}")
