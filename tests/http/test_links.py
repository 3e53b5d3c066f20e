"""Links with tokens: looking at one changes nothing, a POST redeems it once."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from celery_saga.client import documents
from celery_saga.http import wsgi
from celery_saga.testing import Lab
from tests.http.client import Client, Got
from tests.http.project import MAILS, app
from tests.http.test_error_map import started

FORM = {"content-type": "application/x-www-form-urlencoded"}


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, got: Got) -> None:
        super().__init__()
        assert got.headers["content-type"] == "text/html; charset=utf-8", got
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(got.body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep it."""
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each of these tags."""
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def anybody(lab: Lab) -> Client:
    """Whoever has a link: there is no authorizer."""
    return Client(wsgi(app))


@pytest.fixture
def run(client: Client, lab: Lab) -> str:
    run = started(client, "asking", {"secret": "s3cret"})
    lab.drain()
    return run


@pytest.fixture
def link(run: str) -> str:
    return f"/tokens/{MAILS[-1]}"


def status(client: Client, lab: Lab, run: str) -> Any:
    lab.drain()
    return client.get(f"/runs/{run}").json["status"]


def test_looking_at_a_link_redeems_nothing(client: Client, anybody: Client, lab: Lab, run: str, link: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "GET"):
        anybody(method, link, headers={"purpose": "prefetch"})

    assert status(client, lab, run) == "waiting"
    assert anybody("HEAD", link).body == b""
    assert client.get(f"/runs/{run}").json["signals"] == []


def test_the_page_says_what_is_answered_and_not_the_payload(anybody: Client, link: str) -> None:
    got = anybody.get(link)
    page = Page(got)

    assert got.status == 200
    assert "approval" in page.text
    assert "asking" in page.text
    assert b"s3cret" not in got.body
    assert [(each["value"], each["name"]) for each in page.all("button")] == [("true", "value"), ("false", "value")]
    assert page.all("form") == [{"method": "post"}]
    assert page.all("script") == page.all("link") == page.all("img") == []


def test_the_page_is_neither_stored_framed_indexed_nor_told_to_others(anybody: Client, link: str) -> None:
    headers = anybody.get(link).headers

    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-robots-tag"] == "noindex, nofollow"
    assert headers["x-frame-options"] == "DENY"
    for rule in ("default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert rule in headers["content-security-policy"]


@pytest.mark.parametrize(("value", "ends"), [("true", True), ("false", False)])
def test_a_form_redeems_once(
    value: str, ends: bool, client: Client, anybody: Client, lab: Lab, run: str, link: str
) -> None:
    done = anybody("POST", link, urlencode({"value": value}).encode(), FORM)
    again = anybody("POST", link, urlencode({"value": value}).encode(), FORM)
    looked = anybody.get(link)

    assert (done.status, again.status, looked.status) == (200, 409, 409)
    assert "Thank you" in Page(done).text
    assert Page(again).text.endswith("This link cannot be usedThis link was used already.")
    assert Page(looked).all("form") == []
    assert status(client, lab, run) == "completed"
    assert client.get(f"/runs/{run}").json["result"] is ends


def test_json_redeems_once(client: Client, anybody: Client, lab: Lab, run: str, link: str) -> None:
    done, again = anybody.post(link, {"value": True}), anybody.post(link, {"value": True})

    assert done.json == {"run": run, "signal": "approval"}
    assert again.code == (409, "SIGNAL_DUPLICATE")
    assert status(client, lab, run) == "completed"


def test_a_value_that_does_not_fit_leaves_the_link_usable(
    client: Client, anybody: Client, lab: Lab, run: str, link: str
) -> None:
    wrong = anybody("POST", link, urlencode({"value": '"maybe"'}).encode(), FORM)
    none, broken = anybody.post(link), anybody("POST", link, b"value=%7B", FORM)

    assert wrong.status == broken.status == 400
    assert "INVALID_ARGUMENT" in Page(wrong).text
    assert none.code == (400, "INVALID_ARGUMENT")
    assert anybody.post(link, {"value": True}).status == 200
    assert status(client, lab, run) == "completed"


def test_two_values_are_ambiguous_and_leave_the_link_usable(anybody: Client, link: str) -> None:
    twice = anybody("POST", link, b"value=true&value=false", FORM)
    looked = anybody.get(f"{link}?value=true&value=false")

    assert (twice.status, looked.status) == (400, 400)
    assert "twice" in Page(twice).text
    assert anybody.post(link, {"value": True}).status == 200


def test_a_link_may_give_the_value_that_its_button_sends(anybody: Client, link: str) -> None:
    page = Page(anybody.get(f"{link}?value=false&utm_source=mail"))

    assert [each["value"] for each in page.all("button")] == ["false"]
    assert "false" in page.text
    assert anybody.get(f"{link}?value=nonsense").status == 400


def test_what_a_link_says_is_escaped(anybody: Client, link: str) -> None:
    evil = '</code><script>alert("x")</script>'

    got = anybody.get(f"{link}?value={quote(json.dumps(evil))}")

    assert got.status == 200
    assert Page(got).all("script") == []
    assert b"<script" not in got.body


@pytest.mark.parametrize("token", ["x", "saga-token.x", "saga-token." + "A" * 3000, "%3Cscript%3E"])
def test_a_token_that_nobody_signed_is_refused_and_not_repeated(token: str, anybody: Client, run: str) -> None:
    looked, sent = anybody.get(f"/tokens/{token}"), anybody.post(f"/tokens/{token}", {"value": True})

    assert looked.status == 403
    assert "This link does not count, or not any more." in Page(looked).text
    assert "INVALID_TOKEN" not in Page(looked).text
    assert sent.code == (403, "INVALID_TOKEN")
    assert b"<script>" not in looked.body
    assert token.encode() not in sent.body or token == "x"


def test_a_link_to_what_has_ended_says_so(client: Client, anybody: Client, lab: Lab, run: str, link: str) -> None:
    client.post(f"/runs/{run}/cancel")
    lab.drain()

    told = anybody.get(link)
    assert (told.status, "The time for this answer is over." in Page(told).text) == (409, True)
    assert "SIGNAL_EXPIRED" not in Page(told).text and run not in Page(told).text
    assert anybody.post(link, {"value": True}).code == (409, "SIGNAL_EXPIRED")

    lab.advance(10)
    app.saga.purge(older_than=1)
    assert "over" in Page(anybody.get(link)).text


def test_a_body_of_another_kind_is_refused(anybody: Client, link: str) -> None:
    assert anybody("POST", link, b"yes", {"content-type": "text/plain"}).code == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert anybody("POST", link, b"value=" + b"9" * 70_000, FORM).status == 413


def test_links_can_be_switched_off(lab: Lab, link: str) -> None:
    closed = Client(wsgi(app, tokens=False))

    assert closed.get(link).code == closed.post(link).code == (404, "NOT_FOUND")
    assert "/tokens/{token}" not in closed.get("/openapi.json").json["paths"]


def test_who_may_read_a_run_learns_no_token_of_it(client: Client, run: str, link: str) -> None:
    token = MAILS[-1]

    for path in ("", "/steps", "/history", "/export", "/waiting", "/diagram"):
        got = client.get(f"/runs/{run}{path}")
        assert token.encode() not in got.body, path
    assert b"saga-token.***" in client.get(f"/runs/{run}/steps").body
    steps = app.saga.get(run).steps()
    assert token not in documents.text([documents.step_document(step) for step in steps])
