"""The HTTP API as `include("contrib_django.urls")`: Django's users, permissions and CSRF; run by test_admin.py."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from bazaar import scenes, tasks
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from proj import celery_app

from celery_saga.http import routes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _calm() -> None:
    tasks.trouble.clear()


def person(*permissions: str) -> Client:
    user, _ = User.objects.get_or_create(username="ann")
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def post(client: Client, path: str, body: Any = None, **headers: Any) -> Any:
    return client.post(f"/sagas{path}", json.dumps(body or {}), content_type="application/json", **headers)


def test_nobody_is_refused() -> None:
    run_id = scenes.asked()

    for path in ("/runs", "/sagas", f"/runs/{run_id}", "/desk", "/lanes", "/schedules"):
        assert Client().get(f"/sagas{path}").status_code == 403, path
        assert person().get(f"/sagas{path}").status_code == 403, path
    assert Client().get("/sagas/openapi.json").status_code == 200
    assert Client().get("/sagas/health").status_code == 200
    assert post(Client(), f"/runs/{run_id}/cancel").status_code == 403


ROUTES = {
    "cancel": ("cancel_run", {}),
    "suspend": ("suspend_run", {}),
    "resume": ("resume_run", {}),
    "compensate": ("cancel_run", {}),
    "retry": ("retry_run", {}),
    "skip": ("retry_run", {"step": "x"}),
    "retry-undo": ("settle_undo", {"step": "x"}),
    "resolve-undo": ("settle_undo", {"step": "x", "outcome": "done"}),
    "signals": ("signal_run", {"name": "restocked", "value": 1}),
}


def test_each_route_needs_its_permission() -> None:
    run_id = scenes.done()
    everything = {codename for codename, _ in ROUTES.values()} | {"view_run", "start_run", "purge_run", "view_payload"}

    for verb, (codename, body) in ROUTES.items():
        assert post(person(*everything - {codename}), f"/runs/{run_id}/{verb}", body).status_code == 403, verb
        assert post(person("view_run", codename), f"/runs/{run_id}/{verb}", body).status_code in (200, 409), verb


def test_who_may_everything_is_refused_nowhere() -> None:
    boss = Client()
    boss.force_login(User.objects.create_superuser("boss"))
    there = {"{run}": scenes.asked(), "{saga}": "labels", "{schedule}": "x"}

    for route in routes.ROUTES:
        path = "/sagas" + re.sub(r"\{\w+\}", lambda found: there[found[0]], route.path)
        answer = boss.generic(route.method, path, "{}", content_type="application/json")
        assert answer.status_code not in (403, 500), (route.method, route.path)
    post(boss, "/lanes/pause", {"lane": "bnak"})
    assert post(person("resume_run", "cancel_run"), "/lanes/forget", {"lane": "bnak"}).status_code == 403
    assert post(person("suspend_run"), "/lanes/forget", {"lane": "bnak"}).status_code == 200


def test_a_start_and_a_pause_need_theirs() -> None:
    started = post(person("start_run"), "/sagas/labels/runs", {"args": {"batch": "x", "count": 1}})
    assert started.status_code == 201
    assert post(person("view_run"), "/sagas/labels/runs", {"args": {"batch": "y", "count": 1}}).status_code == 403
    assert post(person("suspend_run"), "/lanes/pause", {"saga": "labels"}).status_code == 200
    assert post(person("suspend_run"), "/lanes/unpause", {"saga": "labels"}).status_code == 403
    assert post(person("resume_run"), "/lanes/unpause", {"saga": "labels"}).status_code == 200


def test_each_verb_is_committed_by_itself_where_requests_are_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    run_id = scenes.asked()

    assert post(person("suspend_run", "view_run"), f"/runs/{run_id}/suspend", {}).status_code == 200
    assert celery_app.saga.get(run_id).status == "suspended"


def test_who_acted_is_in_the_history() -> None:
    run_id = scenes.asked()

    assert post(person("cancel_run", "view_run"), f"/runs/{run_id}/cancel", {"reason": "sold out"}).status_code == 200

    (row,) = (row for row in celery_app.saga.get(run_id).history() if row.action == "cancel")
    assert (row.by, row.reason) == ("ann", "sold out")


def test_payloads_are_hidden_from_who_may_not_see_them() -> None:
    run_id = scenes.done()
    paths = [f"/sagas/runs/{run_id}", f"/sagas/runs/{run_id}/steps", f"/sagas/runs/{run_id}?traceback=true"]

    for path in paths:
        hidden, plain = person("view_run").get(path), person("view_run", "view_payload").get(path)
        assert hidden.status_code == plain.status_code == 200
        assert "Long Lane" not in hidden.content.decode() and "ch_" not in hidden.content.decode(), path
        assert int(hidden.headers["Content-Length"]) == len(hidden.content)
    assert "Long Lane" in person("view_payload", "view_run").get(paths[0]).content.decode()
    assert (
        "Long Lane" not in post(person("view_run", "suspend_run"), f"/runs/{scenes.asked()}/suspend").content.decode()
    )
    assert person("view_run").get(f"/sagas/runs/{run_id}/export").status_code == 403
    assert person("view_run", "view_payload").get(f"/sagas/runs/{run_id}/export").status_code == 200


def test_what_a_saga_takes_is_shown_in_full() -> None:
    described = person("view_run").get("/sagas/sagas/checkout").json()

    assert "approved" in json.dumps(described["signals"])
    assert described["parameters"]["properties"]["gift"] == {"type": "boolean"}


# -- a session -------------------------------------------------------------------------------------------------------
def test_a_session_needs_its_csrf_token_to_change_something() -> None:
    run_id = scenes.asked()
    person("view_run", "cancel_run")
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username="ann"))
    assert client.get(f"/sagas/runs/{run_id}").status_code == 200

    refused = post(client, f"/runs/{run_id}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (403, "CSRF_FAILED")
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert celery_app.saga.get(run_id).status == "waiting"

    client.cookies["csrftoken"] = "a" * 32
    assert post(client, f"/runs/{run_id}/cancel", HTTP_X_CSRFTOKEN="b" * 32).status_code == 403
    assert post(client, f"/runs/{run_id}/cancel", HTTP_X_CSRFTOKEN="a" * 32).status_code == 200
    assert celery_app.saga.get(run_id).status == "cancelled"


def test_a_link_with_a_token_needs_none() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_user("mallory"))

    answer = client.post("/sagas/tokens/nonsense", "{}", content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) in {(403, "INVALID_TOKEN"), (404, "NOT_FOUND")}


def test_a_schedule_that_beat_could_not_show_is_the_fault_of_the_request() -> None:
    said = json.dumps({"cron": "0 0 1 * 1", "args": ["b", 1]})

    answer = person("start_run").put("/sagas/sagas/labels/schedules/odd", said, content_type="application/json")

    assert answer.status_code == 400 and answer.json()["code"] == "INVALID_ARGUMENT"
    assert "Make it two schedules" in answer.json()["detail"]
    assert list(celery_app.saga.schedules()) == []
