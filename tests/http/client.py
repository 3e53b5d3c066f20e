"""A client of a WSGI application in the test's own process.

What it calls is checked against PEP 3333, and the status of each answer against the API's description.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from celery_saga.http import openapi
from celery_saga.http.routes import ROUTES


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> tuple[int, str]:
        """Status and code of a problem document, which it has to be."""
        assert self.headers["content-type"] == "application/problem+json", self
        assert self.json["status"] == self.status
        return self.status, self.json["code"]


class Client:
    """Asks a WSGI application.

    Args:
        app: the application.
        root: where it is mounted.
    """

    def __init__(self, app: Any, root: str = "") -> None:
        self._app = validator(app)
        self._root = root

    def __call__(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        **environ: Any,
    ) -> Got:
        """Ask; the path may have a query."""
        where, _, query = path.partition("?")
        given: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": self._root,
            "PATH_INFO": unquote_to_bytes(where).decode("latin-1"),
            "QUERY_STRING": query,
            "wsgi.input": io.BytesIO(body or b""),
        }
        if body is not None:
            given["CONTENT_LENGTH"] = str(len(body))
        for name, value in (headers or {}).items():
            key = name.upper().replace("-", "_")
            given[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = value
        given |= environ
        setup_testing_defaults(given)
        told: list[Any] = []

        def start_response(status: str, answered: list[tuple[str, str]], exc_info: Any = None) -> Any:
            told[:] = [int(status.split(maxsplit=1)[0]), {name.lower(): value for name, value in answered}]
            return lambda _: None

        parts = self._app(given, start_response)
        try:
            data = b"".join(parts)
        finally:
            parts.close()
        _check_described(method, where, told[0])
        return Got(told[0], told[1], data)

    def get(self, path: str, **headers: str) -> Got:
        """GET."""
        return self("GET", path, headers=headers)

    def post(self, path: str, value: Any = None, **headers: str) -> Got:
        """POST a value as JSON; {} unless given."""
        sent = json.dumps({} if value is None else value).encode()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self("POST", path, sent, {"content-type": "application/json", **named})


@cache
def _described() -> Any:
    return openapi.document("/")["paths"]


def _check_described(method: str, path: str, status: int) -> None:
    for route in ROUTES:
        if route.method == method and route.pattern.fullmatch(path):
            assert str(status) in _described()[route.path][method.lower()]["responses"], (method, path, status)
