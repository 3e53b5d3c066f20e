"""Who may do what, and what those who may not learn."""

from __future__ import annotations

from typing import Any

import pytest

from celery_saga.http import Request, wsgi
from celery_saga.testing import Lab
from tests.http.client import Client
from tests.http.project import app
from tests.http.test_error_map import started


def client_of(authorizer: Any, **options: Any) -> Client:
    return Client(wsgi(app, authorizer, **options))


async def agrees_later(action: str, run: Any, request: Request) -> bool:
    return True


def raises(action: str, run: Any, request: Request) -> bool:
    raise LookupError("no such user")


@pytest.mark.parametrize(
    "authorizer",
    [
        raises,
        agrees_later,
        lambda *_: None,
        lambda *_: False,
        lambda *_: "",
        lambda *_: " ",
        lambda *_: 1,
        lambda *_: object(),
    ],
    ids=["raises", "coroutine", "None", "False", "empty", "blank", "1", "object"],
)
def test_what_is_neither_true_nor_a_name_denies(authorizer: Any, lab: Lab, client: Client) -> None:
    run = started(client)
    denied = client_of(authorizer)

    assert denied.get("/runs").code == (403, "FORBIDDEN")
    assert denied.post(f"/runs/{run}/cancel").code == (403, "FORBIDDEN")
    assert client.get(f"/runs/{run}").json["status"] != "cancelled"


def test_the_name_that_the_authorizer_gives_is_who_did_it(client: Client, lab: Lab) -> None:
    run = started(client)

    client.post(f"/runs/{run}/suspend", {"reason": "too early"})
    rows = client.get(f"/runs/{run}/history").json["history"]

    assert [(row["by"], row["reason"]) for row in rows if row["action"] == "suspend"] == [("ann", "too early")]


def test_nobody_can_act_in_the_name_of_another(client: Client) -> None:
    run = started(client)

    assert client.post(f"/runs/{run}/suspend", {"by": "bob"}).code == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("may_ask_without_run", [True, False])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/steps"), ("GET", "/export"), ("POST", "/signals"), ("POST", "/cancel"), ("POST", "/retry")],
)
def test_a_run_that_may_not_be_read_is_answered_as_one_that_does_not_exist(
    may_ask_without_run: bool, method: str, path: str, client: Client
) -> None:
    run = started(client)
    missing = "0" * 8 + run[8:]
    stranger = client_of(lambda action, run, request: run is None and may_ask_without_run)
    body, kind = b'{"name": "approval"}', {"content-type": "application/json"}

    there = stranger(method, f"/runs/{run}{path}", body, kind)
    nowhere = stranger(method, f"/runs/{missing}{path}", body, kind)

    assert there.code == ((404, "RUN_NOT_FOUND") if may_ask_without_run else (403, "FORBIDDEN"))
    assert (there.status, there.headers["content-type"]) == (nowhere.status, nowhere.headers["content-type"])
    assert there.body.replace(run.encode(), missing.encode()) == nowhere.body


def test_who_may_read_a_run_is_told_that_more_is_not_allowed(client: Client) -> None:
    run = started(client)
    reader = client_of(lambda action, run, request: action == "read")

    assert reader.get(f"/runs/{run}").status == 200
    assert reader.post(f"/runs/{run}/cancel").code == (403, "FORBIDDEN")
    assert reader.post("/runs/missing/cancel").code == (403, "FORBIDDEN")


def test_a_listing_leaves_out_what_may_not_be_read(client: Client) -> None:
    mine, other = started(client), started(client, "lingering", {"note": "x"})
    shopper = client_of(lambda action, run, request: run is None or run.saga == "purchase")

    assert {run["id"] for run in client.get("/runs").json["runs"]} >= {mine, other}
    assert [run["id"] for run in shopper.get("/runs").json["runs"]] == [mine]
    client.post(f"/runs/{other}/suspend")
    assert [entry["run"]["id"] for entry in client.get("/desk").json["desk"]] == [other]
    assert shopper.get("/desk").json["desk"] == []


def test_who_may_only_start_is_not_shown_a_run_that_was_there(client: Client) -> None:
    run = started(client)
    starter = client_of(lambda action, run, request: action == "start")

    got = starter.post("/sagas/purchase/runs", {"args": {"item": {"sku": "a1"}}})

    assert (got.status, got.json["id"], got.json["created"]) == (200, run, False)
    assert "input" not in got.json


def test_the_authorizer_sees_who_asks_and_how(client: Client) -> None:
    seen: list[Request] = []

    def authorizer(action: str, run: Any, request: Request) -> bool:
        seen.append(request)
        return True

    Client(wsgi(app, authorizer), root="/api")("GET", "/runs?limit=5", headers={"x-team": "a"}, REMOTE_USER="bob")

    (request,) = seen
    assert (request.method, request.path, request.query, request.root) == ("GET", "/runs", "limit=5", "/api")
    assert (request.headers["x-team"], request.user) == ("a", "bob")


def test_a_saga_that_may_not_be_started_is_not_told_from_one_that_does_not_exist(client: Client) -> None:
    shopper = client_of(lambda action, run, request: run == "purchase")

    assert shopper.post("/sagas/lingering/runs").code == shopper.post("/sagas/nonsense/runs").code == (403, "FORBIDDEN")
    assert shopper.post("/sagas/nonsense/signals", {"key": "k", "name": "n"}).code == (403, "FORBIDDEN")


def test_the_health_and_the_description_are_open_and_hold_no_data(lab: Lab, client: Client) -> None:
    started(client)
    closed = Client(wsgi(app))

    idle = {"outbox": {"waiting": 0, "oldest_s": None}, "schedules": {"failing": 0}}
    assert closed.get("/health").json == {"status": "ok", **idle}
    assert closed.get("/openapi.json").status == 200
    assert b"purchase" not in closed.get("/openapi.json").body
