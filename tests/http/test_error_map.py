"""A29: which error is answered with which status and code, and that everything is denied unless it is allowed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from celery_saga.core.records import RunRecord
from celery_saga.http import ACTIONS, Request, wsgi
from celery_saga.http.routes import ROUTES
from celery_saga.testing import Lab
from tests.http.client import Client
from tests.http.project import app

ITEM = {"item": {"sku": "a1"}}


JSON = {"content-type": "application/json"}


def filled(route: Any, run: str) -> str:
    """The path of a route, about this run."""
    return str(route.path.format(run=run, saga="purchase", schedule="hourly"))


def started(client: Client, saga: str = "purchase", args: Any = None) -> str:
    got = client.post(f"/sagas/{saga}/runs", {"args": ITEM if args is None else args})
    assert got.status == 201, got
    return str(got.json["id"])


@pytest.mark.parametrize("run", ["there", "missing"])
@pytest.mark.parametrize("body", [b"{}", b"no json"], ids=["json", "bad"])
def test_a29_without_an_authorizer_every_data_route_is_forbidden(lab: Lab, run: str, body: bytes) -> None:
    there = lab.start(app.saga.registry.latest("lingering")).id if run == "there" else run
    closed = Client(wsgi(app))

    for route in ROUTES:
        assert closed(route.method, filled(route, there), body, JSON).code == (403, "FORBIDDEN"), route


def test_a29_a_bad_body_is_an_invalid_argument(client: Client) -> None:
    run = started(client)

    for body in (b"{", b"[]", b'"x"', b"\xff", b'{"name": "approval", "value": NaN}', b'{"nme": "approval"}'):
        got = client("POST", f"/runs/{run}/signals", body, {"content-type": "application/json"})
        assert got.code == (400, "INVALID_ARGUMENT"), body
    for args in ({"item": {"sku": 5}}, {"item": {}}, {"other": 1}, {}, [1, 2], 5):
        assert client.post("/sagas/purchase/runs", {"args": args}).code == (400, "INVALID_ARGUMENT"), args


def test_a29_a_missing_run_is_not_found(client: Client) -> None:
    for route in [route for route in ROUTES if "{run}" in route.path]:
        assert client(route.method, filled(route, "missing"), b"{}", JSON).code == (404, "RUN_NOT_FOUND"), route


def test_a_purged_run_is_gone_and_one_without_its_key_was_never_there(client: Client, lab: Lab) -> None:
    body = b'{"step": "x", "outcome": "done", "name": "approval"}'
    bodies = {route: set(route.body.model_fields) if route.body else set() for route in ROUTES}
    run = started(client)
    client.post(f"/runs/{run}/cancel")
    lab.drain()
    lab.advance(10)
    app.saga.purge(older_than=1)

    for route in [route for route in ROUTES if "{run}" in route.path]:
        given = {name: value for name, value in json.loads(body).items() if name in bodies[route]}
        assert client(route.method, filled(route, run), json.dumps(given).encode(), JSON).code == (410, "RESULT_PURGED")
        assert 410 in route.refusals
    again = client.post("/sagas/purchase/runs", {"args": ITEM})
    known = {name: again.json[name] for name in ("id", "saga", "status", "purged", "created")}
    assert (again.status, known) == (
        200,
        {"id": run, "saga": "purchase", "status": "cancelled", "purged": True, "created": False},
    )
    assert client.get("/runs").json["runs"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/sagas/nonsense/runs"),
        ("GET", "/sagas/nonsense"),
        ("GET", "/sagas/nonsense/diagram"),
        ("GET", "/sagas/purchase?version=9"),
    ],
)
def test_a29_a_missing_saga_is_unknown(client: Client, method: str, path: str) -> None:
    assert client(method, path, b"{}", {"content-type": "application/json"}).code == (404, "UNKNOWN_SAGA")


def test_a29_a_signal_to_a_key_of_a_missing_saga_is_unknown(client: Client) -> None:
    assert client.post("/sagas/nonsense/signals", {"key": "k", "name": "n"}).code == (404, "UNKNOWN_SAGA")


def test_a29_signals_are_refused_by_their_codes(client: Client, lab: Lab) -> None:
    lingering, strict = started(client, "lingering", {}), started(client)
    lab.drain()

    first = client.post(f"/runs/{strict}/signals", {"name": "approval", "value": True, "id": "1"})
    again = client.post(f"/runs/{strict}/signals", {"name": "approval", "value": True, "id": "1"})
    never = client.post(f"/runs/{strict}/signals", {"name": "nonsense"})
    lab.advance(timedelta(hours=2))
    late = client.post(f"/runs/{lingering}/signals", {"name": "go"})
    client.post(f"/runs/{lingering}/signals", {"name": "stop"})
    lab.drain()
    after_the_end = client.post(f"/runs/{lingering}/signals", {"name": "stop"})

    assert (first.status, first.json["delivery"]) == (200, "delivered")
    assert again.code == (409, "SIGNAL_DUPLICATE")
    assert never.code == (409, "SIGNAL_NOT_EXPECTED")
    assert late.code == (409, "SIGNAL_EXPIRED")
    assert after_the_end.code == (409, "SIGNAL_EXPIRED")


def test_a29_the_authorizer_sees_each_action_and_no_other(lab: Lab) -> None:
    asked: list[tuple[str, type]] = []

    def authorizer(action: str, run: Any, request: Request) -> bool:
        asked.append((action, type(run)))
        return True

    client = Client(wsgi(app, authorizer))
    run = started(client)
    for route in ROUTES:
        body = b'{"step": "x", "outcome": "done", "name": "x", "key": "k"}'
        client(route.method, filled(route, run), body, JSON)

    assert {action for action, _ in asked} == set(ACTIONS)
    assert {kind for action, kind in asked if action == "start"} == {str}
    # Without a run: lists and lanes.
    assert {kind for action, kind in asked if action in {"cancel", "retry"}} == {RunRecord, type(None)}
    assert {kind for action, kind in asked if action == "read"} == {RunRecord, type(None)}
