"""The mounts give the core the same request, and the same answer back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery import Celery
from fastapi import FastAPI

from celery_saga import CelerySaga, DefinitionError
from celery_saga.http import AsgiApp, Request, asgi, wsgi
from celery_saga.runtime.services import per_process
from tests.cli.database import with_tables
from tests.cli.program import Program
from tests.http.asking import ask
from tests.http.client import Client
from tests.http.project import MAILS, app
from tests.workers import ROOT

PROJECT = "tests.http.project"
JSON = {"content-type": "application/json"}


@pytest.fixture
def database_url(tmp_path: Any) -> Iterator[str]:
    """The project's database, for this process and for others."""
    url = with_tables(f"sqlite:///{tmp_path / 'saga.db'}")
    before = app.conf.saga_database_url
    per_process(app).close()
    app.conf.saga_database_url = url
    yield url
    per_process(app).close()
    app.conf.saga_database_url = before


def all_allowed(seen: list[Request]) -> Any:
    def authorizer(action: str, run: Any, request: Request) -> bool:
        seen.append(request)
        return True

    return authorizer


@pytest.fixture
def mount(database_url: str) -> Iterator[AsgiApp]:
    mount = asgi(app, all_allowed([]))
    yield mount
    mount.close()


_WRONG: list[tuple[str, dict[str, Any]]] = [
    *(("waiting=", {"waiting": value}) for value in ("x", 0, -1, True, 1.5, None)),
    *(("max_body_bytes=", {"max_body_bytes": value}) for value in (-1, 0, "x", True)),
    *(("tokens=", {"tokens": value}) for value in (None, 0, "x")),
    *(("authorizer", {"authorizer": value}) for value in (5, "x", False)),
    *(("app", {"app": value}) for value in (None, 5, "x")),
]


@pytest.mark.parametrize("mounted", [wsgi, asgi])
@pytest.mark.parametrize(("what", "options"), _WRONG)
def test_what_cannot_be_mounted_is_refused_by_name(mounted: Any, what: str, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=f"the HTTP API: {what} must be .*nothing was mounted"):
        mounted(**{"app": app, **options})


@pytest.mark.parametrize(
    ("mount", "known"), [(wsgi, "max_body_bytes, tokens, waiting"), (asgi, "max_body_bytes, threads")]
)
def test_an_option_that_a_mount_does_not_have_is_refused_with_those_that_it_has(mount: Any, known: str) -> None:
    with pytest.raises(
        DefinitionError, match=f"does not know the option 'token'; it takes {known}.*nothing was mounted"
    ):
        mount(app, token=True)


@pytest.mark.parametrize("threads", [0, "x", True, None])
def test_threads_that_are_no_number_are_refused_when_mounted(threads: Any) -> None:
    with pytest.raises(DefinitionError, match="threads= must be a whole number"):
        asgi(app, threads=threads)


@pytest.mark.parametrize("root", ["", "/sagas"])
def test_asgi_answers_as_wsgi_does(root: str, database_url: str) -> None:
    seen: list[Request] = []
    mount = asgi(app, all_allowed(seen), max_body_bytes=1000)
    client = Client(wsgi(app, all_allowed(seen), max_body_bytes=1000), root)
    run = client.post("/sagas/lingering/runs", {}).json["id"]
    again = b'{"name": "go", "id": "\xc3\xa9"}'
    client("POST", f"/runs/{run}/signals", again, JSON)
    asked: list[tuple[str, str, bytes, dict[str, str]]] = [
        ("GET", f"/runs/{run}", b"", {}),
        ("GET", "/runs?limit=1", b"", {}),
        ("HEAD", "/runs", b"", {}),
        ("OPTIONS", "/runs", b"", {}),
        ("GET", "/nonsense/%ff", b"", {}),
        ("POST", f"/runs/{run}/cancel", b"{", JSON),
        ("POST", f"/runs/{run}/cancel", b"x" * 1001, JSON),
        ("POST", f"/runs/{run}/signals", again, JSON),
        ("GET", "/openapi.json", b"", {}),
    ]
    for method, path, body, headers in asked:
        seen.clear()
        one, other = client(method, path, body, headers), asyncio.run(ask(mount, method, path, body, headers, root))
        assert (other.status, other.headers, other.body) == (one.status, one.headers, one.body), path
        sent = [(each.method, each.path, each.query, each.root) for each in seen]
        assert sent[: len(sent) // 2] == sent[len(sent) // 2 :]
    mount.close()


def test_asgi_takes_a_body_in_parts_and_reads_no_more_than_it_must(mount: AsgiApp) -> None:
    parts = [b'{"args": {"note"', b': "x"}', b"}"]

    got = asyncio.run(ask(mount, "POST", "/sagas/lingering/runs", parts, JSON))
    told = asyncio.run(ask(mount, "POST", "/sagas/lingering/runs", None, {**JSON, "content-length": "9" * 5000}))

    assert (got.status, got.json["input"]) == (201, {"note": "x"})
    assert told.code == (413, "PAYLOAD_TOO_LARGE")


def test_asgi_mounted_in_fastapi(mount: AsgiApp) -> None:
    site = FastAPI()
    site.mount("/sagas", mount)

    got = asyncio.run(ask(site, "POST", "/sagas/sagas/lingering/runs", b"{}", JSON))

    assert got.status == 201
    assert got.headers["location"] == f"/sagas/runs/{got.json['id']}"


def test_asgi_says_good_bye_with_its_threads(mount: AsgiApp) -> None:
    async def live() -> list[str]:
        told: list[str] = []
        messages = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> dict[str, Any]:
            return {"type": next(messages)}

        async def send(message: Any) -> None:
            told.append(message["type"])

        await ask(mount, "GET", "/runs", b"", {})
        assert mount._pool is not None
        await mount({"type": "lifespan"}, receive, send)
        return told

    assert asyncio.run(live()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert mount._pool is None


def test_the_loop_goes_on_while_a_request_waits(mount: AsgiApp) -> None:
    async def both() -> tuple[Any, Any]:
        run = (await ask(mount, "POST", "/sagas/lingering/runs", b"{}", JSON)).json["id"]
        after = (await ask(mount, "GET", f"/runs/{run}/events", b"", {})).json["next"]
        waits = asyncio.create_task(ask(mount, "GET", f"/runs/{run}/events?after={after}&wait=20", b"", {}))
        await asyncio.sleep(0)
        signalled = await ask(mount, "POST", f"/runs/{run}/signals", b'{"name": "go"}', JSON)
        return signalled, await asyncio.wait_for(waits, 15)

    signalled, got = asyncio.run(both())

    assert signalled.status == 200
    assert got.json["events"]


def test_of_many_who_redeem_a_link_at_once_one_does(database_url: str) -> None:
    client = Client(wsgi(app, lambda *_: True))
    MAILS.clear()
    run = client.post("/sagas/asking/runs", {"args": ["s"]}).json["id"]
    (token,) = MAILS

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(f"/tokens/{token}", {"value": True}), range(8)))

    assert sorted(answer.status for answer in answers) == [200] + 7 * [409]
    assert {answer.json["code"] for answer in answers if answer.status != 200} <= {"SIGNAL_DUPLICATE", "SIGNAL_EXPIRED"}
    assert len(client.get(f"/runs/{run}").json["signals"]) == 1


def test_the_command_serves_what_is_allowed_until_it_is_told_to_end(database_url: str) -> None:
    process = Program("celery saga", PROJECT, database_url).start("api", "--port", "0", "--allow", "read", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        told = json.loads(process.stdout.readline())
        url = told["url"]
        with urllib.request.urlopen(f"{url}/runs", timeout=20) as got:
            assert json.load(got) == {"runs": [], "next": None}
        for size in (2, 3_000_000):
            asked = urllib.request.Request(f"{url}/sagas/lingering/runs", b"x" * size, JSON)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=20)
            assert json.load(refused.value)["code"] == "FORBIDDEN"
            refused.value.close()
        assert url.startswith("http://127.0.0.1:")
        assert told["allowed"] == ["read"]
    finally:
        process.terminate()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_the_command_tells_where_it_cannot_listen(database_url: str) -> None:
    done = Program("celery-saga", PROJECT, database_url)("api", "--host", "192.0.2.1", "--port", "0")

    assert done.code == 1
    assert done.err.startswith("CANNOT_LISTEN: 192.0.2.1:0: ")


def test_an_app_whose_settings_are_wrong_is_the_servers_trouble(caplog: pytest.LogCaptureFixture) -> None:
    wrong = Celery("wrong", set_as_current=False)
    CelerySaga(wrong)
    mount = asgi(wrong, lambda *_: True)
    try:
        got = asyncio.run(ask(mount, "GET", "/runs", b"", {}))
    finally:
        mount.close()

    assert got.code == Client(wsgi(wrong, lambda *_: True)).get("/health").code == (500, "DEFINITION_ERROR")
    assert b"database_url" not in got.body
    assert "saga_database_url" in caplog.text


def test_importing_the_package_imports_no_framework() -> None:
    program = (
        "import sys, celery_saga.http; print([m for m in ('django.http', 'fastapi', 'starlette') if m in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "[]\n", done.stderr
