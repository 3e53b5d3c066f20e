"""Whether what stands for a signature has the parts of one: canvases also come as JSON, from whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["inside", "misshapen", "options_in"]


def misshapen(sig: Mapping[str, Any]) -> str | None:
    """What is wrong with its parts, as a sentence without full stop; None: nothing."""
    args, kwargs, options = sig.get("args"), sig.get("kwargs"), sig.get("options")
    if args is not None and not isinstance(args, list | tuple):
        return f"its args are no list, but of the type {type(args).__name__}"
    for name, value in (("kwargs", kwargs), ("options", options), ("kwargs.kwargs", inside(sig).get("kwargs"))):
        if value is not None and not _is_named(value):
            return f"its {name} are no mapping of names, but of the type {type(value).__name__}"
    items, stamps = inside(sig).get("it"), options_in(sig).get("stamped_headers")
    for name, value in (("kwargs.it", items), ("options.stamped_headers", stamps)):
        if value is not None and (isinstance(value, str | Mapping) or not isinstance(value, Iterable)):
            return f"its {name} is no list, but of the type {type(value).__name__}"
    return None


def inside(sig: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its keyword arguments, where Celery keeps what a canvas is of; none where they have another shape."""
    return _named(sig.get("kwargs"))


def options_in(sig: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its options; none where they have another shape."""
    return _named(sig.get("options"))


def _named(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) and _is_named(value) else {}


def _is_named(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
