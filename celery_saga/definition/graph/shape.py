"""Looks at a graph with the published JSON Schema, and tells people what is wrong with it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["Fault", "faults", "is_sound", "schema", "under"]

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a graph.

    Args:
        where: the place, like `states.charge.on.ok`; empty for the whole.
        what: the rest of a sentence that begins with the place.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where or 'the graph'} {self.what}"


@cache
def schema() -> Mapping[str, Any]:
    """The published JSON Schema of graphs (draft 2020-12)."""
    text = (resources.files("celery_saga.definition.graph") / "graph.schema.json").read_text("utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def faults(graph: object) -> list[Fault]:
    """What the schema finds wrong with a graph; in the order of the graph."""
    return list(_against(schema(), graph, ""))


def under(where: str, name: str) -> str:
    """The place of an entry of what stands at `where`."""
    return f"{where}.{name}" if where else name


def _against(rule: Mapping[str, Any], value: object, where: str) -> Iterator[Fault]:
    rule = _resolved(rule)
    if "oneOf" in rule:
        yield from _of_one_kind(rule, value, where)
        return
    if "anyOf" in rule:
        if not any(not list(_against(each, value, where)) for each in rule["anyOf"]):
            yield _must_be(rule, value, where)
        return
    if not _is_simple(rule, value):
        yield _must_be(rule, value, where)
    elif isinstance(value, dict):
        yield from _entries(rule, value, where)
    elif isinstance(value, list) and "items" in rule:
        for index, item in enumerate(value):
            yield from _against(rule["items"], item, f"{where}[{index}]")


def _resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rule with what it refers to; what it is for comes before what it looks like."""
    while "$ref" in rule:
        target: Mapping[str, Any] = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
        told = [each["description"] for each in (rule, target) if "description" in each]
        rule = {**target, **{name: value for name, value in rule.items() if name != "$ref"}}
        rule = {**rule, "description": ": ".join(told)} if told else rule
    return rule


def _of_one_kind(rule: Mapping[str, Any], value: object, where: str) -> Iterator[Fault]:
    """Kinds of objects, each told by the first key that it requires."""
    kinds = {each["required"][0]: each for each in map(_resolved, rule["oneOf"])}
    if not isinstance(value, dict):
        yield _must_be(rule, value, where)
        return
    found = [kind for kind in kinds if kind in value]
    if len(found) == 1:
        yield from _against(kinds[found[0]], value, where)
    elif found:
        yield Fault(where, f"is of {len(found)} kinds at once ({', '.join(found)}): it must be {rule['description']}")
    else:
        yield Fault(where, f"is of no kind: it must be {rule['description']}")


def _is_simple(rule: Mapping[str, Any], value: object) -> bool:
    """Whether a value is right, as far as it can be told without looking into its entries."""
    types = rule.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_is_of(name, value) for name in types):
        return False
    if "enum" in rule and not any(type(each) is type(value) and each == value for each in rule["enum"]):
        return False
    if isinstance(value, str):
        return len(value) <= rule.get("maxLength", len(value)) and re.search(rule.get("pattern", ""), value) is not None
    if isinstance(value, int | float) and not isinstance(value, bool):
        low: float = rule.get("minimum", -math.inf)
        above: float = rule.get("exclusiveMinimum", -math.inf)
        high: float = rule.get("maximum", math.inf)
        return low <= value <= high and (value > above or "exclusiveMinimum" not in rule)
    if isinstance(value, list | dict):
        fewest: int = rule.get("minItems" if isinstance(value, list) else "minProperties", 0)
        return len(value) >= fewest
    return True


def _is_of(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    match name:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        case "number":
            return isinstance(value, int | float)
    return False


def _entries(rule: Mapping[str, Any], value: Mapping[str, Any], where: str) -> Iterator[Fault]:
    known = rule.get("properties", {})
    others = rule.get("additionalProperties", True)
    for name in rule.get("required", ()):
        if name not in value:
            yield Fault(where, f"has no {name!r} ({_described(known.get(name, {}))})")
    for name, needed in rule.get("dependentRequired", {}).items():
        for other in needed if name in value else ():
            if other not in value:
                yield Fault(where, f"has {name!r} without {other!r}, so that there is nothing for it to act on")
    for name, entry in value.items():
        place = under(where, name)
        if name in known:
            yield from _against(known[name], entry, place)
        elif others is False:
            yield Fault(where, f"has the unknown key {name!r}: allowed are {', '.join(known)}")
        elif isinstance(others, dict):
            yield from _against(rule.get("propertyNames", {}), name, f"the name {place}")
            yield from _against(others, entry, place)


def _must_be(rule: Mapping[str, Any], value: object, where: str) -> Fault:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
    return Fault(where, f"must be {_described(rule)}, not {shown}")


def _described(rule: Mapping[str, Any]) -> str:
    return str(_resolved(rule).get("description", "something else"))


def is_sound(kind: str, value: object) -> bool:
    """Whether a part of a graph is as the schema's definition of this name says."""
    return not list(_against(schema()["$defs"][kind], value, ""))
