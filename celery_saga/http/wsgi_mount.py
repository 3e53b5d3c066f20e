"""The API as a WSGI application (PEP 3333)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Unpack
from urllib.parse import quote

from celery import Celery

from celery_saga.http.access import Authorizer
from celery_saga.http.api import Api, ApiOptions, mounted
from celery_saga.http.messages import Request, no_body
from celery_saga.runtime.app import CelerySaga

__all__ = ["WsgiApp", "wsgi"]

_PREFIX = "HTTP_"
_OUTSIDE = {"CONTENT_TYPE": "content-type", "CONTENT_LENGTH": "content-length"}


class WsgiApp:
    """An API for a WSGI server; below another application it is mounted by `SCRIPT_NAME`."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        response = self.api.handle(_request(environ))
        try:
            phrase = HTTPStatus(response.status).phrase
        except ValueError:
            phrase = "Unknown"
        start_response(f"{response.status} {phrase}", list(response.headers))
        return [response.body]


def wsgi(app: Celery | CelerySaga, authorizer: Authorizer | None = None, **options: Unpack[ApiOptions]) -> WsgiApp:
    """The API as a WSGI application.

    Args:
        app: the Celery app, with celery_saga added.
        authorizer: allows; None: every data route is forbidden.
        options: as of `Api`.
    Raises:
        DefinitionError: celery_saga was not added to the app, or an option is not allowed.
    """
    return WsgiApp(mounted("wsgi()", app, authorizer, options))


def _request(environ: dict[str, Any]) -> Request:
    return Request(
        method=str(environ["REQUEST_METHOD"]).upper(),
        path=_decoded(environ.get("PATH_INFO", "")) or "/",
        query=_decoded(environ.get("QUERY_STRING", "")),
        headers=_headers(environ),
        root=quote(_decoded(environ.get("SCRIPT_NAME", "")), errors="replace").rstrip("/"),
        user=environ.get("REMOTE_USER"),
        native=environ,
        read=partial(_read, environ) if environ.get("wsgi.input") is not None else no_body,
    )


def _headers(environ: Mapping[str, Any]) -> dict[str, str]:
    found = {name: str(environ[key]) for key, name in _OUTSIDE.items() if environ.get(key)}
    for key, value in environ.items():
        if key.startswith(_PREFIX):
            found.setdefault(key.removeprefix(_PREFIX).replace("_", "-").lower(), str(value))
    return found


def _decoded(text: str) -> str:
    """PEP 3333 gives bytes as Latin-1; what is no UTF-8 becomes surrogates, which no route has."""
    return text.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def _read(environ: Mapping[str, Any], limit_bytes: int) -> bytes:
    source = environ["wsgi.input"]
    length = str(environ.get("CONTENT_LENGTH") or "").strip()
    if length.isdecimal():
        left = min(int(length), limit_bytes)
    elif environ.get("wsgi.input_terminated"):
        left = limit_bytes
    else:
        return b""  # such an input has no end that could be seen
    parts = []
    while left > 0 and (part := source.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
