"""What a request may look like, and what its answer looks like."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest

from celery_saga.http import wsgi
from celery_saga.testing import Lab
from tests.http.client import Client
from tests.http.project import app
from tests.http.test_error_map import started

JSON = {"content-type": "application/json"}
START = "/sagas/lingering/runs"


class Unread(io.BytesIO):
    """A body that must not be read."""

    def read(self, size: int | None = -1) -> bytes:
        raise AssertionError("the body was read")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"args": [' + b"[" * 100_000,
        b'{"args": [' + b"[" * 500 + b"]" * 500 + b"]}",
        b'{"args": {"note": NaN}}',
        b'{"args": {"note": 1e999}}',
        b'{"args": {"note": ' + b"9" * 5000 + b"}}",
        b'{"args": {"note": "a", "note": "b"}}',
        b'{"args": {"note": "\\ud800"}}',
        b'{"tags": ["\\u0000"]}',
        b'{"key": "a\\u0000b"}',
        b'{"key": ""}',
        b'{"key": null, "version": true}',
        b'{"priority": 2097152}',
        b'{"countdown": -1}',
        b'{"countdown": 1, "eta": "2026-01-01T00:00:00Z"}',
        b'{"eta": "2026-01-01T00:00:00"}',
        b'{"eta": "9999-12-31T23:59:59-23:00"}',
        b'{"eta": 5}',
        b'{"if_exists": "maybe"}',
        b'{"nonsense": 1}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_body_that_does_not_mean_one_thing_is_refused_and_starts_nothing(body: bytes, client: Client) -> None:
    assert client("POST", START, body, JSON).code == (400, "INVALID_ARGUMENT")
    assert client.get("/runs").json["runs"] == []


def test_an_error_repeats_no_value_of_a_payload(client: Client) -> None:
    got = client.post("/sagas/purchase/runs", {"args": {"item": {"sku": 5, "count": "s3cret"}}})

    assert got.code == (400, "INVALID_ARGUMENT")
    assert got.json["path"] == "item.sku"
    assert b"s3cret" not in got.body


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
def test_a_body_of_another_kind_is_refused(kind: str | None, client: Client) -> None:
    run = started(client)

    got = client("POST", f"/runs/{run}/cancel", b"{}", {} if kind is None else {"content-type": kind})

    assert got.code == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_an_empty_body_is_an_empty_object(client: Client) -> None:
    run = started(client)

    assert client("POST", f"/runs/{run}/cancel", b"", JSON).json["cancelled"] is True


def test_a_body_that_is_too_long_is_refused_and_is_not_read_where_its_length_tells(lab: Lab) -> None:
    client = Client(wsgi(app, lambda *_: True, max_body_bytes=100))
    told = {"CONTENT_LENGTH": "101", "CONTENT_TYPE": "application/json"}
    absurd = {**told, "CONTENT_LENGTH": "9" * 4000}
    endless = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True, "CONTENT_TYPE": "application/json"}

    assert client("POST", START, **told, **{"wsgi.input": Unread()}).code == (413, "PAYLOAD_TOO_LARGE")
    assert client("POST", START, **absurd, **{"wsgi.input": Unread()}).code == (413, "PAYLOAD_TOO_LARGE")
    assert client("POST", START, **endless, **{"wsgi.input": io.BytesIO(b" " * 101)}).code[0] == 413
    assert client("POST", START, b"{}" + b" " * 98, JSON).status == 201


def test_a_payload_that_is_too_large_to_be_stored_is_refused(lab: Lab, client: Client) -> None:
    limit = app.saga.services.settings.max_payload_bytes

    assert client.post(START, {"args": {"note": "x" * limit}}).code == (413, "PAYLOAD_TOO_LARGE")


def test_without_permission_no_body_is_read(lab: Lab) -> None:
    got = Client(wsgi(app))("POST", START, CONTENT_LENGTH="5", **{"wsgi.input": Unread()})

    assert got.code == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/runs", "GET, HEAD, OPTIONS"),
        ("/runs/x/cancel", "OPTIONS, POST"),
        ("/health", "GET, HEAD, OPTIONS"),
        ("/tokens/x", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_a_method_that_a_route_does_not_take_is_told_with_those_that_it_takes(
    path: str, allowed: str, client: Client
) -> None:
    refused = client("DELETE", path)
    options = client("OPTIONS", path)

    assert refused.code == (405, "METHOD_NOT_ALLOWED")
    assert refused.headers["allow"] == options.headers["allow"] == allowed
    assert (options.status, options.body) == (204, b"")


def test_head_is_get_without_its_body(client: Client) -> None:
    run = started(client)

    got, head = client.get(f"/runs/{run}"), client("HEAD", f"/runs/{run}")

    assert (head.status, head.body) == (200, b"")
    assert head.headers == got.headers


@pytest.mark.parametrize("path", ["/", "", "/nonsense", "/runs/", "/runs/a/b/c", "/runs/%00", "/runs/%ff", "/run%0as"])
def test_a_path_that_is_no_route_is_not_found(path: str, client: Client) -> None:
    assert client.get(path).code == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=1&limit=2",
        "statsu=failed",
        "status=asleep",
        "since=yesterday",
        "since=2026-01-01",
        "since=5",
        "attention=1",
        "attention=",
        "tag=%00",
        "tag=%ff",
        "version=99999999999999999999",
        "&".join(f"status=failed&a{i}=1" for i in range(100)),
    ],
    ids=lambda query: query[:30],
)
def test_a_query_that_cannot_be_used_is_refused(query: str, client: Client) -> None:
    assert client.get(f"/runs?{query}").code == (400, "INVALID_ARGUMENT")


def test_a_listing_is_filtered_and_paged_by_links(client: Client, lab: Lab) -> None:
    runs = [started(client, "lingering", {"note": str(i)}) for i in range(5)]
    started(client)
    mounted = Client(wsgi(app, lambda *_: True), root="/api/v1")
    path: str | None = "/runs?saga=lingering&status=queued&status=waiting&limit=2"
    found: list[str] = []
    links = []
    while path is not None:
        got = mounted.get(path)
        found += [run["id"] for run in got.json["runs"]]
        link = got.headers.get("link")
        assert (link is None) is (got.json["next"] is None)
        links.append(link)
        path = None if link is None else link.partition(">")[0].removeprefix("</api/v1")

    assert len(links) == 3
    assert sorted(found) == sorted(runs)
    assert links[0] is not None
    assert links[0].startswith("</api/v1/runs?saga=lingering&status=queued&status=waiting&limit=2&after=")
    assert links[0].endswith('>; rel="next"')


def test_a_start_tells_where_the_run_is_and_again_that_it_was_there(lab: Lab) -> None:
    client = Client(wsgi(app, lambda *_: True), root="/api")
    args = {"args": {"item": {"sku": "a1"}}, "tags": ["x"], "deadline": 3600, "priority": 5}

    first, again = client.post("/sagas/purchase/runs", args), client.post("/sagas/purchase/runs", args)

    assert (first.status, again.status) == (201, 200)
    assert first.headers["location"] == again.headers["location"] == f"/api/runs/{first.json['id']}"
    assert (first.json["created"], again.json["created"]) == (True, False)
    assert (first.json["key"], first.json["tags"], first.json["priority"]) == ("a1", ["x"], 5)
    assert first.json["deadline_at"] is not None


def test_a_key_with_other_arguments_is_a_conflict_and_names_the_run(client: Client) -> None:
    run = started(client)

    got = client.post("/sagas/purchase/runs", {"args": {"item": {"sku": "a1", "count": 2}}})
    exists = client.post("/sagas/purchase/runs", {"args": {"item": {"sku": "a1"}}, "if_exists": "raise"})

    assert (got.code, got.json["run_id"]) == ((409, "IDEMPOTENCY_CONFLICT"), run)
    assert exists.code == (409, "RUN_EXISTS")


def test_an_idempotency_key_is_the_key_where_there_is_no_other(client: Client) -> None:
    def key_of(saga: str, body: dict[str, Any], header: str = '"abc"') -> Any:
        return client.post(f"/sagas/{saga}/runs", body, idempotency_key=header).json["key"]

    assert key_of("lingering", {}) == "abc"
    assert key_of("lingering", {}, "abc") == "abc"
    assert key_of("lingering", {"key": "own"}) == "own"
    assert key_of("purchase", {"args": {"item": {"sku": "a9"}}}) == "a9"
    assert client.post(START, {}, idempotency_key='"abc"').json["created"] is False
    assert client.post(START, {"args": {"note": "n"}}, idempotency_key="abc").code == (409, "IDEMPOTENCY_CONFLICT")
    assert client.post(START, {}, idempotency_key='""').code == (400, "INVALID_ARGUMENT")


def test_an_idempotency_key_is_the_id_of_a_signal(client: Client) -> None:
    run = started(client)
    signal = {"name": "approval", "value": True}

    assert client.post(f"/runs/{run}/signals", signal, idempotency_key="abc").status == 200
    assert client.post(f"/runs/{run}/signals", signal, idempotency_key="abc").code == (409, "SIGNAL_DUPLICATE")


def test_a_signal_by_key_waits_for_its_run(client: Client, lab: Lab) -> None:
    sent = client.post("/sagas/purchase/signals", {"key": "a1", "name": "approval", "value": True})
    run = started(client)
    lab.drain()

    assert (sent.json["run"], sent.json["delivery"]) == (run, "kept")
    assert client.get(f"/runs/{run}").json["status"] == "completed"


def test_a_signal_may_be_answered_with_an_error(client: Client, lab: Lab) -> None:
    run = started(client)

    both = client.post(f"/runs/{run}/signals", {"name": "approval", "value": True, "error": "no"})
    fussy = client.post(f"/runs/{run}/signals", {"name": "approval", "error": "Fussy: no"})
    client.post(f"/runs/{run}/signals", {"name": "approval", "error": "TooDear: not this year"})
    lab.drain()
    shown = client.get(f"/runs/{run}").json

    assert both.code == fussy.code == (400, "INVALID_ARGUMENT")
    assert (shown["status"], shown["error"]["message"]) == ("failed", "not this year")


def test_events_follow_a_run_to_its_end(client: Client, lab: Lab) -> None:
    run = started(client)
    lab.drain()
    first = client.get(f"/runs/{run}/events").json
    begun_s = time.monotonic()
    nothing = client.get(f"/runs/{run}/events?after={first['next']}&wait=0.2").json
    waited_s = time.monotonic() - begun_s
    client.post(f"/runs/{run}/signals", {"name": "approval", "value": True})
    lab.drain()
    rest = client.get(f"/runs/{run}/events?after={first['next']}&wait=30").json

    assert (nothing["events"], nothing["next"], nothing["ended"]) == ([], first["next"], False)
    assert waited_s >= 0.2
    assert rest["ended"] is True
    assert [row["seq"] for row in first["events"] + rest["events"]] == list(range(1, rest["next"] + 1))
    assert client.get(f"/runs/{run}/events?after={rest['next']}&wait=30").json["ended"] is True


def test_no_more_requests_wait_at_once_than_there_are_places(lab: Lab) -> None:
    mount = wsgi(app, lambda *_: True, waiting=1)
    client = Client(mount)
    run = started(client, "lingering", {})
    lab.drain()
    after = client.get(f"/runs/{run}/events").json["next"]

    with mount.api._patience.place():
        refused = client.get(f"/runs/{run}/events?after={after}&wait=5")

    assert refused.code == (429, "RATE_LIMITED")
    assert refused.headers["retry-after"] == "1"
    assert client.get(f"/runs/{run}/events?after={after}&wait=0.01").status == 200


def test_operators_verbs_answer_with_the_run_and_refuse_a_wrong_state(client: Client, lab: Lab) -> None:
    run = started(client)
    lab.drain()

    suspended = client.post(f"/runs/{run}/suspend")
    again = client.post(f"/runs/{run}/suspend")
    resumed = client.post(f"/runs/{run}/resume")
    cancelled = client.post(f"/runs/{run}/cancel", {"reason": "changed my mind"})
    lab.drain()
    retried = client.post(f"/runs/{run}/retry", {"from_step": "reserve"})

    assert (suspended.json["status"], resumed.json["status"]) == ("suspended", "running")
    assert again.code == (409, "ILLEGAL_TRANSITION")
    assert cancelled.json == {"run": run, "cancelled": True, "status": "compensating", "changed": True}
    assert (retried.status, retried.json["generation"]) == (200, 2)


def test_undos_are_repaired_by_hand(client: Client, lab: Lab) -> None:
    run = started(client, "clumsy", {})
    lab.drain()

    assert client.get(f"/runs/{run}").json["status"] == "compensation_failed"
    assert client.post(f"/runs/{run}/retry-undo", {"step": "reserve", "args": ["other"]}).status == 200
    lab.drain()
    assert client.post(f"/runs/{run}/resolve-undo", {"step": "reserve"}).code == (400, "INVALID_ARGUMENT")
    done = client.post(f"/runs/{run}/resolve-undo", {"step": "reserve", "outcome": "done"})
    assert done.json["status"] == "failed"


def test_a_step_is_skipped_with_a_result(client: Client, lab: Lab) -> None:
    run = started(client, "careful", {})
    lab.drain()

    assert client.post(f"/runs/{run}/skip", {"step": "nonsense"}).code == (409, "ILLEGAL_TRANSITION")
    assert client.post(f"/runs/{run}/skip", {"step": "fail", "result": {"a": 1}}).status == 200
    lab.drain()
    assert client.get(f"/runs/{run}").json["status"] == "completed"


def test_sagas_are_listed_with_the_schema_of_what_they_take(client: Client) -> None:
    found = {saga["name"]: saga for saga in client.get("/sagas").json["sagas"]}
    purchase = found["purchase"]

    assert client.get("/sagas/purchase").json == purchase
    assert purchase["parameters"]["required"] == ["item"]
    assert purchase["parameters"]["properties"]["item"]["required"] == ["sku"]
    assert purchase["signals"] == {"approval": {"type": "boolean"}}
    assert found["lingering"]["parameters"]["required"] == []
    assert purchase["description"] == "Waits for an approval."


def test_a_saga_that_is_a_function_has_no_diagram(client: Client) -> None:
    assert client.get("/sagas/purchase/diagram").code == (409, "DEFINITION_ERROR")


def test_an_unexpected_error_is_told_without_what_it_says(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    got = client.post("/sagas/leaky/runs", {"args": ["s3cret"]})

    assert got.code == (500, "INTERNAL_ERROR")
    assert b"s3cret" not in got.body
    assert b"Traceback" not in got.body
    assert "s3cret" in caplog.text


def test_every_answer_is_not_stored_and_not_guessed(client: Client) -> None:
    for path in ("/runs", "/openapi.json", "/nonsense", "/health", "/tokens/x"):
        headers = client.get(path).headers
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


def test_a_run_that_was_parked_by_a_bug_shows_its_traceback_only_on_request(client: Client, lab: Lab) -> None:
    run = started(client, "broken", {})
    lab.drain()

    plain, told = client.get(f"/runs/{run}"), client.get(f"/runs/{run}?traceback=true")

    assert b"Traceback" not in plain.body
    assert 'raise ValueError("a bug")' in told.json["error"]["traceback"]
    assert json.loads(plain.body)["error"]["message"] == "a bug"


def test_a_pause_is_of_one_saga_or_lane(client: Client) -> None:
    for verb in ("pause", "unpause"):
        assert client.post(f"/lanes/{verb}").code == (400, "INVALID_ARGUMENT")
        assert client.post(f"/lanes/{verb}", {"saga": "lingering", "lane": "bank"}).code == (400, "INVALID_ARGUMENT")
    assert client.post("/lanes/unpause", {"lane": "bank"}).json["changed"] is False
    assert client.post("/lanes/pause", {"saga": "nobody"}).code == (404, "UNKNOWN_SAGA")


def test_a_paused_saga_starts_runs_that_wait(client: Client, lab: Lab) -> None:
    paused = client.post("/lanes/pause", {"saga": "lingering"})
    run = started(client, "lingering", {})
    lab.drain()
    waiting = client.get(f"/runs/{run}/waiting").json["waiting_on"]
    client.post("/lanes/unpause", {"saga": "lingering"})
    lab.drain()

    assert (paused.json["paused_by"], [each["kind"] for each in waiting]) == ("ann", ["lane"])
    assert client.get(f"/runs/{run}").json["status"] == "waiting"


def test_a_mistyped_lane_is_forgotten_and_one_in_use_is_not(client: Client, lab: Lab) -> None:
    client.post("/lanes/pause", {"lane": "bnak"})
    forgotten = [client.post("/lanes/forget", {"lane": "bnak", "reason": "mistyped"}).json for _ in range(2)]
    client.post("/sagas/lingering/runs", {"args": {}, "lane": "taken"})
    lab.drain()

    assert forgotten == [{"lane": "bnak", "changed": True}, {"lane": "bnak", "changed": False}]
    assert client.post("/lanes/forget", {"lane": "taken"}).code == (409, "ILLEGAL_TRANSITION")


def test_schedules_are_added_changed_paused_and_removed(client: Client, lab: Lab) -> None:
    path = "/sagas/lingering/schedules/hourly"
    body = {"every": 3600, "args": {"note": "by the clock"}}

    def put(value: Any) -> Any:
        return client("PUT", path, json.dumps(value).encode(), JSON)

    missing = client.get(path)
    added = put(body)
    paused = client.post(f"{path}/pause", {"reason": "holiday"})
    unpaused = client.post(f"{path}/unpause")
    lab.advance(3700)
    fires = client.get(f"{path}/fires").json["fires"]
    listed = client.get("/schedules?saga=lingering").json["schedules"]
    removed, again = client("DELETE", path), client("DELETE", path)

    assert missing.code == again.code == (404, "SCHEDULE_NOT_FOUND")
    assert (added.status, added.json["source"], added.json["input"]) == (200, "http", {"note": "by the clock"})
    assert (paused.json["paused"], paused.json["pause_by"], paused.json["pause_reason"]) == (True, "ann", "holiday")
    assert unpaused.json["paused"] is False
    assert [fire["outcome"] for fire in fires] == ["fired"]
    assert client.get(f"/runs/{fires[0]['run_id']}").json["input"] == {"note": "by the clock"}
    assert [each["id"] for each in listed] == ["hourly"]
    assert removed.json == {"saga": "lingering", "id": "hourly", "removed": True}
    for wrong in ({}, {"cron": "nonsense"}, {"every": 5, "at": "2026-01-01T00:00:00Z"}, {"every": 5, "args": {"x": 1}}):
        assert put(wrong).code == (400, "INVALID_ARGUMENT"), wrong
