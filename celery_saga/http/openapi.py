"""The OpenAPI 3.1 document, made of the route table and of the models it names."""

from __future__ import annotations

import copy
import re
from functools import cache
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from celery_saga.http import answers, asked
from celery_saga.http.problems import PROBLEM
from celery_saga.http.routes import ROUTES, Route
from celery_saga.http.strict import FORM, JSON

__all__ = ["document"]

_REF = "#/components/schemas/{model}"
_EVERY = (400, 403, 500, 503)
_OF_BODY = (413, 415)
_ABOUT = """Runs of durable sagas. Without an authorizer every route is answered with 403, but for `/openapi.json`,
`/health` and `/tokens/{token}`. Each operation names in `x-action` what the authorizer is asked about."""


def document(root: str, *, tokens: bool = True) -> dict[str, Any]:
    """The document.

    Args:
        root: where the API is mounted, for `servers`.
        tokens: with the route of links with tokens.
    """
    found: dict[str, Any] = copy.deepcopy(_made())
    if not tokens:
        del found["paths"]["/tokens/{token}"]
    return {**found, "servers": [{"url": root}]}


@cache
def _made() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths |= {"/openapi.json": {"get": _open("openapi", "This document.", {"type": "object"})}}
    paths |= {"/health": {"get": _open("health", "Whether the database is reached.", _ref(answers.HealthAnswer), 503)}}
    paths |= {"/tokens/{token}": _token()}
    info = {"title": "celery_saga", "version": _version(), "description": _ABOUT}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": _schemas()}}


def _version() -> str:
    try:
        return version("celery-durable-saga")
    except PackageNotFoundError:
        return "0"


def _schemas() -> dict[str, Any]:
    models = {model for route in ROUTES for model in (route.answer, route.body) if model is not None}
    models |= {answers.ProblemAnswer, answers.HealthAnswer, answers.RedeemedAnswer, asked.Redeem}
    ordered = sorted(models, key=lambda each: each.__name__)
    _, found = models_json_schema([(each, "validation") for each in ordered], ref_template=_REF)
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _content(schema: dict[str, Any], media_type: str = JSON) -> dict[str, Any]:
    return {media_type: {"schema": schema}}


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "x-action": route.action,
        "parameters": [*_path_parameters(route.path), *_query_parameters(route.query)],
        "responses": {str(status): _success(route, status) for status in route.success},
    }
    refusals = {*_EVERY, *route.refusals, *(_OF_BODY if route.body is not None else ())}
    found["responses"] |= {str(status): _problem(status) for status in sorted(refusals)}
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": _content(_ref(route.body))}
    if _is_sent_once(route) or route.action == "signal":
        found["parameters"].append(_idempotency_key())
    return found


def _is_sent_once(route: Route) -> bool:
    return route.answer is answers.StartedAnswer


def _success(route: Route, status: int) -> dict[str, Any]:
    headers = {"Location": {"schema": {"type": "string"}}} if _is_sent_once(route) else {}
    told = {"description": HTTPStatus(status).phrase, "content": _content(_ref(route.answer))}
    return {**told, "headers": headers} if headers else told


def _problem(status: int) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": _content(_ref(answers.ProblemAnswer), PROBLEM)}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _query_parameters(query: type[BaseModel]) -> list[dict[str, Any]]:
    properties = query.model_json_schema(ref_template=_REF).get("properties", {})
    return [_query_parameter(name, schema) for name, schema in properties.items()]


def _query_parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    # A query cannot say null: what may be left out is left out.
    kinds = [each for each in schema.pop("anyOf", []) if each != {"type": "null"}]
    told = {"description": schema.pop("description")} if "description" in schema else {}
    schema = {key: value for key, value in schema.items() if key != "title" and (key, value) != ("default", None)}
    return {"name": name, "in": "query", "required": False, **told, "schema": {**schema, **(kinds[0] if kinds else {})}}


def _idempotency_key() -> dict[str, Any]:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "The run's key where neither the body nor the saga gives one; the signal's id where the body "
        "has none.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!#-~]+$"},
    }


def _open(name: str, summary: str, schema: dict[str, Any], *refusals: int) -> dict[str, Any]:
    responses = {str(status): _problem(status) for status in (*refusals, 500)}
    responses |= {"200": {"description": "OK", "content": _content(schema)}}
    return {"operationId": name, "summary": summary, "responses": responses}


def _token() -> dict[str, Any]:
    page = {"schema": {"type": "string"}}
    told = {**_content(_ref(answers.ProblemAnswer), PROBLEM), "text/html": page}
    refusals = {
        str(status): {"description": HTTPStatus(status).phrase, "content": told}
        for status in (400, 403, 404, 409, 413, 415, 500, 503)
    }
    parameters = [
        *_path_parameters("/tokens/{token}"),
        {
            "name": "value",
            "in": "query",
            "description": "What the page's button sends, as JSON.",
            "schema": {"type": "string"},
        },
    ]
    form = {"type": "object", "properties": {"value": {"type": "string", "description": "The value, as JSON text."}}}
    bodies = {**_content(_ref(asked.Redeem)), **_content(form, FORM)}
    seen = {"200": {"description": "A page with a form", "content": {"text/html": page}}}
    sent = {"200": {"description": "Sent", "content": {**_content(_ref(answers.RedeemedAnswer)), "text/html": page}}}
    return {
        "parameters": parameters,
        "get": {
            "operationId": "token_show",
            "summary": "The page of a link with a token; nothing is redeemed.",
            "responses": {**seen, **refusals},
        },
        "post": {
            "operationId": "token_redeem",
            "summary": "Send the signal that a token stands for, once.",
            "requestBody": {"required": True, "content": bodies},
            "responses": {**sent, **refusals},
        },
    }
