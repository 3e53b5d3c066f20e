"""JSON Schema read for a form: which parts of it become fields of their own, and of which kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Part", "parts_of", "skeleton"]

_DEPTH = 3
_SIMPLE = frozenset({"string", "integer", "number", "boolean"})


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a value that has a field.

    Args:
        path: names from the outside in.
        kind: `string`, `integer`, `number`, `boolean`, `choice`, or `json` for all else.
        schema: what it must be, with references resolved.
        required: it must be given.
        nullable: it may be null.
    """

    path: tuple[str, ...]
    kind: str
    schema: Mapping[str, Any]
    required: bool
    nullable: bool

    @property
    def name(self) -> str:
        """The field's name: the path with dots, as errors of the library tell it."""
        return ".".join(self.path)

    @property
    def choices(self) -> list[Any]:
        """The values that a choice has."""
        return list(self.schema.get("enum", [self.schema.get("const")]))


def parts_of(schema: Mapping[str, Any]) -> list[Part]:
    """The parts of an object's schema, in its order; nested objects that must be given are taken apart too."""
    shared = schema.get("$defs", {})
    return list(_parts(schema, shared, (), required=True, depth=0))


def _parts(
    schema: Mapping[str, Any], shared: Mapping[str, Any], path: tuple[str, ...], *, required: bool, depth: int
) -> Iterator[Part]:
    must = set(schema.get("required", ()))
    for name, given in schema.get("properties", {}).items():
        found, nullable = _plain(given, shared)
        here, is_required = (*path, name), required and name in must
        if is_required and not nullable and depth < _DEPTH and _is_closed(found):
            yield from _parts(found, shared, here, required=is_required, depth=depth + 1)
            continue
        yield Part(here, _kind(found), {**found, "$defs": shared}, is_required, nullable)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """An object whose members are all named."""
    return bool(schema.get("properties")) and not (
        schema.get("additionalProperties") or schema.get("patternProperties")
    )


def _plain(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Without references, and without the null of an optional; and whether that was there."""
    found = _followed(schema, shared)
    options = found.get("anyOf")
    if not options:
        return found, False
    rest = {key: value for key, value in found.items() if key != "anyOf"}
    others = [each for each in options if each.get("type") != "null"]
    nullable = len(others) < len(options)
    if len(others) == 1:
        return {**_followed(others[0], shared), **rest}, nullable
    text = [each for each in others if each.get("type") == "string"]
    numbers = [each for each in others if each.get("type") in ("number", "integer")]
    if text and len(text) + len(numbers) == len(others):  # of a Decimal: written as text nothing of it is lost
        return {**rest, **text[0], "is_decimal": bool(numbers)}, nullable
    return found, nullable


def _followed(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    found, seen = dict(schema), set()
    while (reference := found.get("$ref")) is not None and reference not in seen:
        seen.add(reference)
        there = shared.get(str(reference).removeprefix("#/$defs/"), {})
        found = {**there, **{key: value for key, value in found.items() if key != "$ref"}}
    if len(found.get("allOf", ())) == 1:
        only = _followed(found["allOf"][0], shared)
        found = {**only, **{key: value for key, value in found.items() if key != "allOf"}}
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return "choice"
    kind = schema.get("type")
    return kind if kind in _SIMPLE else "json"


def skeleton(schema: Mapping[str, Any], shared: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """A value of the schema's form to begin with, as a person would write it."""
    shared = schema.get("$defs", {}) if shared is None else shared
    found, nullable = _plain(schema, shared)
    if "default" in found:
        return found["default"]
    if nullable or depth > _DEPTH:
        return None
    if "enum" in found or "const" in found:
        return found.get("const", next(iter(found.get("enum", [None]))))
    kind = found.get("type")
    if kind == "object":
        return {name: skeleton(each, shared, depth + 1) for name, each in found.get("properties", {}).items()}
    if kind == "array":
        return [skeleton(found["items"], shared, depth + 1)] if isinstance(found.get("items"), Mapping) else []
    return {"string": "", "integer": 0, "number": 0.0, "boolean": False}.get(str(kind))
