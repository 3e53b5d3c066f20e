"""The OpenAPI document is valid, and says what the routes and the page of the docs say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from celery_saga import errors
from celery_saga.http import ACTIONS, openapi
from celery_saga.http.problems import titles
from celery_saga.http.routes import ROUTES
from tests.docs.blocks import ROOT, rows
from tests.http.client import Client

PAGE = ROOT / "docs" / "http.md"


def test_the_document_is_valid_openapi_3_1() -> None:
    for tokens in (True, False):
        found = openapi.document("/api", tokens=tokens)
        OpenAPIV31SpecValidator(found).validate()  # type: ignore[arg-type]
        assert found["openapi"] == "3.1.0"
        assert found["servers"] == [{"url": "/api"}]
        assert json.loads(json.dumps(found)) == found


def test_every_route_is_described_with_its_action() -> None:
    paths = openapi.document("/")["paths"]
    described = {
        (method.upper(), path): told.get("x-action")
        for path, item in paths.items()
        for method, told in item.items()
        if method != "parameters"
    }
    opened = {("GET", "/openapi.json"), ("GET", "/health"), ("GET", "/tokens/{token}"), ("POST", "/tokens/{token}")}

    assert {each for each, action in described.items() if action is None} == opened
    assert {each: action for each, action in described.items() if action} == {
        (route.method, route.path): route.action for route in ROUTES
    }
    names = [told["operationId"] for item in paths.values() for told in item.values() if "operationId" in told]
    assert len(names) == len(set(names))


def test_the_page_tells_the_action_of_every_route() -> None:
    told = {
        row[0].split("`")[1]: re.findall(r"`((?:GET|PUT|POST|DELETE) [^`]+)`", row[1]) for row in rows(PAGE, "action")
    }

    assert {action: sorted(found) for action, found in told.items()} == {
        action: sorted(f"{route.method} {route.path}" for route in ROUTES if route.action == action)
        for action in ACTIONS
    }


def test_the_page_has_every_code_with_the_status_it_is_answered_with() -> None:
    statuses = {getattr(errors, name).code: getattr(errors, name).http_status for name in errors.__all__}
    told = {code: int(row[0]) for row in rows(PAGE, "status") for code in re.findall(r"`([A-Z_]+)`", row[1])}

    of_django = {"CSRF_FAILED"}  # answered by its mount alone
    assert {code for code in told if code not in statuses} == (set(titles()) - set(statuses)) | of_django
    assert {code: status for code, status in told.items() if code in statuses and status != statuses[code]} == {
        "DEFINITION_ERROR": 409  # only what a caller asks for gets that far
    }


def test_the_document_is_served_below_the_place_where_it_is_mounted(client: Client) -> None:
    got = client("GET", "/openapi.json", SCRIPT_NAME="/api")

    assert got.json["servers"] == [{"url": "/api"}]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_query_can_say_whatever_is_described(route: Any) -> None:
    """No parameter is null, and none has a keyword that JSON Schema does not know."""
    for parameter in openapi.document("/")["paths"][route.path][route.method.lower()]["parameters"]:
        schema = parameter["schema"]
        assert "anyOf" not in schema, parameter
        assert set(schema) <= {
            *("type", "items", "enum", "format", "pattern", "default"),
            *("minLength", "maxLength", "minimum", "maximum", "maxItems"),
        }, parameter
