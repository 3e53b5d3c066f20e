"""Asks an ASGI application, without a server."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from tests.http.client import Got


async def ask(
    app: Any, method: str, path: str, body: bytes | list[bytes] | None, headers: dict[str, str], root: str = ""
) -> Got:
    """One request.

    Args:
        body: whole or in parts; None: it must not be asked for.
        root: where the application is mounted.
    """
    where, _, query = path.partition("?")
    parts = [body] if isinstance(body, bytes) else list(body or [])
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": root + unquote(where),
        "raw_path": (root + where).encode(),
        "query_string": query.encode(),
        "root_path": root,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("test", 80),
    }
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        assert parts, "more was asked for than was sent"
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    await app(scope, receive, send)
    start, *rest = told
    named = {name.decode(): value.decode() for name, value in start["headers"]}
    return Got(start["status"], named, b"".join(each.get("body", b"") for each in rest))
