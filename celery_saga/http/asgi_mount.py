"""The API as an ASGI application, for FastAPI, Starlette and any ASGI server; the database is asked in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Unpack
from urllib.parse import quote

from celery import Celery

from celery_saga.http.access import Authorizer
from celery_saga.http.api import Api, ApiOptions, mounted, whole
from celery_saga.http.messages import Request, Response
from celery_saga.runtime.app import CelerySaga

__all__ = ["AsgiApp", "asgi"]

_MAX_DIGITS = 18
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class AsgiApp:
    """An API for an ASGI server; below another application it is mounted by `root_path`.

    Args:
        threads: how many requests are answered at once; others wait their turn.
    Raises:
        DefinitionError: of `threads` that are no number from 1.
    """

    def __init__(self, api: Api, threads: int = 16) -> None:
        self.api = api
        self._threads = whole(threads, "threads=")
        self._pool: ThreadPoolExecutor | None = None
        self._limit_bytes: int | None = None

    def close(self) -> None:
        """Let its threads end; the server's lifespan does it where the API is not mounted in another application."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise NotImplementedError(f"ASGI scope of type {scope['type']!r}")

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="celery_saga-http")
        loop, pool = asyncio.get_running_loop(), self._pool
        if self._limit_bytes is None:
            # The first request has the sagas' modules imported.
            self._limit_bytes = await loop.run_in_executor(pool, self.api.body_limit)
        body = await self._body(receive, scope, self._limit_bytes or 0)
        if body is None:
            return
        response = await loop.run_in_executor(pool, self.api.handle, _request(scope, body))
        await _send(response, send)

    async def _body(self, receive: Receive, scope: Scope, limit_bytes: int) -> bytes | None:
        """The body, of which not much more than the longest that is taken is kept; None: the client has gone."""
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and (len(told) > _MAX_DIGITS or int(told) > limit_bytes):
            return b""  # refused by its length
        parts = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            parts += message.get("body", b"")
            if len(parts) > limit_bytes or not message.get("more_body", False):
                return bytes(parts)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await asyncio.to_thread(self.close)
                await send({"type": "lifespan.shutdown.complete"})
                return


def asgi(
    app: Celery | CelerySaga, authorizer: Authorizer | None = None, *, threads: int = 16, **options: Unpack[ApiOptions]
) -> AsgiApp:
    """The API as an ASGI application.

    Args:
        app: the Celery app, with celery_saga added.
        authorizer: allows; called in a thread, so a plain function; None: every data route is forbidden.
        threads: how many requests are answered at once.
        options: as of `Api`.
    Raises:
        DefinitionError: celery_saga was not added to the app, or an option is not allowed.
    """
    return AsgiApp(mounted("asgi()", app, authorizer, options, "threads"), threads)


def _request(scope: Scope, body: bytes) -> Request:
    root = scope.get("root_path", "").rstrip("/")
    path = scope["path"]
    # Some servers give the whole path, some what is left of it behind the root.
    rest = path.removeprefix(root) if root and path.startswith(root) else path
    if rest and not rest.startswith("/"):
        rest = path
    return Request(
        method=scope["method"].upper(),
        path=rest or "/",
        query=scope.get("query_string", b"").decode("utf-8", "surrogateescape"),
        headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
        root=quote(root, errors="replace"),
        user=scope.get("user"),
        native=scope,
        read=partial(_read, body),
    )


def _read(body: bytes, limit_bytes: int) -> bytes:
    return body[:limit_bytes]


async def _send(response: Response, send: Send) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
