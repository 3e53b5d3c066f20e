"""The example of the HTTP API: the same shop served by WSGI, FastAPI and Django, each with an authorizer of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.database import with_tables
from tests.docs.blocks import blocks
from tests.examples.project import SCRIPTS
from tests.workers import ROOT

HOME = ROOT / "examples" / "http"
_WSGI = """
import sys; sys.path.insert(0, {root!r})
from tests.http.client import Client
client = Client({name}.application, {mount!r})
def ask(method, path, body, **headers):
    given = {{"content-type": "application/json", **headers}}
    return client(method, path, json.dumps(body).encode(), given)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {
        "SHOP_BROKER_URL": "memory://",
        "SHOP_DATABASE_URL": with_tables(f"sqlite:///{tmp_path / 'saga.db'}"),
        "SHOP_DJANGO_DB": str(tmp_path / "site.db"),
        "SHOP_API_KEY": "s3cret",
        "SHOP_API_KEYS": "k1=ann,k2=bob",
    }
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **own}


def told(environment: dict[str, str], *lines: str) -> list[str]:
    """What a program in the example's folder prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", "\n".join(["import json", *lines])],
        cwd=HOME,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def test_behind_wsgi_whoever_has_the_key_may_do_everything(environment: dict[str, str]) -> None:
    lines = told(
        environment,
        "import plain_wsgi",
        _WSGI.format(root=str(ROOT), name="plain_wsgi", mount=""),
        "body = {'args': {'order': 'o1', 'cents': 500}}",
        "print(ask('POST', '/sagas/refund/runs', body).code)",
        "print(ask('POST', '/sagas/refund/runs', body, authorization='Bearer no').code)",
        "started = ask('POST', '/sagas/refund/runs', body, authorization='Bearer s3cret')",
        "print(started.status, started.json['key'], started.json['status'])",
    )

    assert lines == ["(403, 'FORBIDDEN')", "(403, 'FORBIDDEN')", "201 o1 queued"]


def test_inside_fastapi_the_key_tells_who_it_is(environment: dict[str, str]) -> None:
    lines = told(
        environment,
        f"import sys; sys.path.insert(0, {str(ROOT)!r})",
        "import asyncio, with_fastapi",
        "from tests.http.asking import ask",
        "def call(method, path, body, key):",
        "    headers = {'content-type': 'application/json', 'x-api-key': key}",
        "    return asyncio.run(ask(with_fastapi.site, method, path, json.dumps(body).encode(), headers))",
        "body = {'args': {'order': 'o1', 'cents': 500}}",
        "print(call('GET', '/', {}, '').json)",
        "print(call('POST', '/sagas/sagas/refund/runs', body, 'k2').code)",
        "run = call('POST', '/sagas/sagas/refund/runs', body, 'k1').json['id']",
        "print(call('POST', f'/sagas/runs/{run}/cancel', {}, 'k2').code)",
        "print(call('POST', f'/sagas/runs/{run}/cancel', {}, 'k1').json['status'])",
        "rows = call('GET', f'/sagas/runs/{run}/history', {}, 'k2').json['history']",
        "print({row['by'] for row in rows if row['action'] == 'cancel'})",
    )

    assert lines == [
        "{'sagas': '/sagas/openapi.json'}",
        "(403, 'FORBIDDEN')",
        "(403, 'FORBIDDEN')",
        "cancelled",
        "{'ann'}",
    ]


def test_in_django_staff_may_do_everything(environment: dict[str, str]) -> None:
    lines = told(
        environment,
        "import with_django",
        "from django.contrib.auth import get_user_model",
        "from django.core.management import call_command",
        "from django.test import Client",
        "call_command('migrate', verbosity=0)",
        "ann = get_user_model().objects.create_user('ann', is_staff=True)",
        "eve = get_user_model().objects.create_user('eve')",
        "body = {'args': {'order': 'o1', 'cents': 500}}",
        "def call(user, method, path, **given):",
        "    client = Client(enforce_csrf_checks=True)",
        "    if user: client.force_login(user)",
        "    return client.generic(method, path, json.dumps(given), content_type='application/json')",
        "print([call(user, 'GET', '/sagas/runs').status_code for user in (None, eve, ann)])",
        "started = call(ann, 'POST', '/sagas/sagas/refund/runs', **body)",
        "run = started.json()['id']",
        "print(started.status_code, started.headers['location'] == f'/sagas/runs/{run}')",
        "call(ann, 'POST', f'/sagas/runs/{run}/cancel')",
        "rows = call(ann, 'GET', f'/sagas/runs/{run}/history').json()['history']",
        "print({row['by'] for row in rows if row['action'] == 'cancel'})",
        "form = Client(enforce_csrf_checks=True); form.force_login(ann)",
        "print(form.post(f'/sagas/runs/{run}/retry', {}).status_code)",
        "print(Client().get('/sagas/tokens/nonsense').status_code, Client().head('/sagas/health').status_code)",
        "print(Client().delete('/sagas/runs').headers['allow'], Client().get('/sagas/nonsense').json()['code'])",
        "print(Client().options('/sagas/runs').headers.get('content-type'))",
        "print(Client().get('/sagas/openapi.json').json()['servers'])",
        "many = client = Client(); many.force_login(ann)",
        "big = many.generic('POST', f'/sagas/runs/{run}/retry', 'x' * 3_000_000, content_type='application/json')",
        "print(big.status_code, big.json()['code'])",
    )

    assert lines == [
        "[403, 403, 200]",
        "201 True",
        "{'ann'}",
        "415",
        "403 200",
        "GET, HEAD, OPTIONS NOT_FOUND",
        "None",
        "[{'url': '/sagas'}]",
        "413 PAYLOAD_TOO_LARGE",
    ]


def test_the_commands_of_the_page_start_a_refund(environment: dict[str, str]) -> None:
    serve, asked = (blocks(HOME / "README.md", "console")[number].text.splitlines() for number in (0, 1))
    words = serve[-1].removeprefix("$ celery ").replace("--port 8000", "--port 0").split()
    process = subprocess.Popen(
        [str(SCRIPTS / "celery"), *words, "--json"], cwd=HOME, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["url"]
        found = []
        for line in asked:
            path = re.search(r"http://127\.0\.0\.1:8000([^\s']*)", line)
            body = re.search(r"-d '([^']*)'", line)
            assert path is not None
            data = None if body is None else body[1].encode()
            request = urllib.request.Request(url + path[1], data, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as got:
                found.append(json.load(got))
    finally:
        process.terminate()
        process.communicate(timeout=30)

    health, started, listed = found
    assert health["status"] == "ok"
    assert started["created"] is True
    assert [run["id"] for run in listed["runs"]] == [started["id"]]
