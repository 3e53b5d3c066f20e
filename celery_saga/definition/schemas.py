"""JSON Schema of what a saga takes: its parameters, and the values of its signals."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

from celery_saga.definition.payload import Payload

__all__ = ["parameters_schema", "value_schema"]

_VARIABLE = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


def parameters_schema(payload: Payload) -> dict[str, Any]:
    """The schema of an object that has a body's arguments by name; what cannot be described takes any value."""
    parameters = payload.signature.parameters.values()
    named = [each for each in parameters if each.kind not in _VARIABLE]
    properties, shared = dict[str, Any](), dict[str, Any]()
    for each in named:
        schema = value_schema(payload.type_of(each.name))
        shared.update(schema.pop("$defs", {}))
        properties[each.name] = schema
    found: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [each.name for each in named if each.default is inspect.Parameter.empty],
        "additionalProperties": any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters),
    }
    return {**found, "$defs": shared} if shared else found


def value_schema(type_: Any) -> dict[str, Any]:
    """The schema of a value of this type; {}, which takes any, of None, Any, and types that have none."""
    if type_ in (None, Any, object):
        return {}
    try:
        return TypeAdapter(type_).json_schema()
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError):
        return {}
