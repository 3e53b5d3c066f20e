"""The reference of the HTTP API, made of its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from celery_saga.http.openapi import document


def reference() -> str:
    """A section for each route, then one for each model."""
    told = document("/")
    routes = [
        line
        for path, methods in told["paths"].items()
        for verb, each in methods.items()
        if verb != "parameters"
        for line in _route(path, verb, each)
    ]
    models = [line for name, schema in told["components"]["schemas"].items() for line in _model(name, schema)]
    return "\n".join(["## Routes\n", *routes, "## Documents\n", *models])


def _route(path: str, verb: str, route: dict[str, Any]) -> Iterator[str]:
    yield f"### {verb.upper()} {path}\n"
    yield f"{_cell(route['summary'])}\n"
    if "x-action" in route:
        yield f"Allowed by the action `{route['x-action']}`.\n"
    asked = [each for each in route.get("parameters", []) if each["in"] != "path"]
    if asked:
        yield "| parameter | in | type | meaning |\n|---|---|---|---|"
        yield from (
            f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {_cell(each.get('description', ''))} |"
            for each in asked
        )
        yield ""
    body = route.get("requestBody", {}).get("content", {})
    for kind, content in body.items():
        yield f"Body (`{kind}`): {_type(content['schema'])}\n"
    yield f"Answers: {'; '.join(_answer(status, each) for status, each in route['responses'].items())}.\n"


def _answer(status: str, response: dict[str, Any]) -> str:
    models = {_type(each["schema"]) for each in response.get("content", {}).values() if status < "300"}
    return " ".join([f"{status} {response['description']}", *sorted(models)])


def _model(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"({name.lower()})=\n### {name}\n"
    if "description" in schema:
        yield _cell(schema["description"]) + "\n"
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{each}`" for each in schema["enum"]) + ".\n"
    fields = schema.get("properties", {})
    if not fields:
        return
    yield "| field | type | meaning |\n|---|---|---|"
    needed = schema.get("required", [])
    for field, each in fields.items():
        mark = " (required)" if field in needed else ""
        yield f"| `{field}`{mark} | {_type(each)} | {_cell(each.get('description', ''))} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[word]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(kind)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
