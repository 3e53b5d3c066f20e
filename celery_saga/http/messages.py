"""A request and its response, as every mount gives and takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Request", "Response", "no_body"]


def no_body(limit_bytes: int) -> bytes:
    """What is read of a request without a body."""
    return b""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked; the authorizer gets it too.

    `path` is decoded, begins with "/" and is below the place where the API is mounted; `root` is that place as it
    stands in links, without a slash at its end. `query` is as it was sent. Names of `headers` are in lower case. `user`
    is what the framework says who asks: Django's `request.user`, Starlette's `scope["user"]`, the `REMOTE_USER` of
    WSGI; None where it says nothing. `native` is the framework's own: `environ`, `scope` or Django's request.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    root: str = ""
    user: object = None
    native: object = None
    read: Callable[[int], bytes] = field(default=no_body, repr=False)
    """Reads the body, at most so many bytes of it; called once at most."""


@dataclass(frozen=True, slots=True)
class Response:
    """The answer: status, headers in order, and the whole body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
