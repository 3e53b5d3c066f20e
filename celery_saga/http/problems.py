"""What goes wrong, as problem documents of RFC 9457: our code and a sentence, never a stack trace or a payload."""

from __future__ import annotations

import math
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from celery_saga.errors import RateLimited, SagaError

__all__ = ["PROBLEM", "Problem", "forbidden", "invalid", "of_error", "titles"]

PROBLEM = "application/problem+json"
"""Content type of every error."""

_OWN = {
    "FORBIDDEN": "The authorizer does not allow this; nothing was read or changed.",
    "NOT_FOUND": "There is no such route.",
    "METHOD_NOT_ALLOWED": "The route does not take this method.",
    "UNSUPPORTED_MEDIA_TYPE": "The body is of another media type than the route takes.",
    "INTERNAL_ERROR": "Something unexpected went wrong; the server's log tells what.",
}
_TRY_AGAIN_S = 1


class Problem(Exception):
    """Ends a request.

    Args:
        status: of HTTP, 400 to 599.
        code: stable, upper case with underscores.
        detail: which thing, what was wrong, what was left unchanged, what to do.
        headers: of the response, besides those of every response.
        more: further members of the document, none of them a payload.
    """

    def __init__(
        self, status: int, code: str, detail: str, *, headers: tuple[tuple[str, str], ...] = (), **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers
        self._more = {name: value for name, value in more.items() if value}

    def document(self) -> dict[str, Any]:
        """The problem document."""
        title = titles().get(self.code) or HTTPStatus(self.status).phrase
        told = {"type": f"urn:celery-saga:{self.code}", "title": title, "status": self.status, "code": self.code}
        return {**told, "detail": self.detail, **self._more}


def titles() -> dict[str, str]:
    """What each code means in one sentence: of our errors, and of those that only HTTP has."""
    known = [each for each in _below(SagaError) if not each.__name__.startswith("_")]
    return {each.code: (each.__doc__ or "").strip().partition("\n")[0] for each in known} | _OWN


def _below(error: type[SagaError]) -> Iterator[type[SagaError]]:
    for each in error.__subclasses__():
        if each.__module__ == SagaError.__module__:
            yield each
            yield from _below(each)


def forbidden(what: str) -> Problem:
    """The authorizer has not allowed this."""
    return Problem(403, "FORBIDDEN", f"{what}: this is not allowed here; nothing was read or changed.")


def invalid(detail: str, *, path: str = "") -> Problem:
    """A part of the request cannot be used; nothing was done.

    Args:
        path: where in the request, like `body.tags[0]`.
    """
    return Problem(400, "INVALID_ARGUMENT", detail, path=path)


def of_error(error: SagaError) -> Problem:
    """The problem that an error of ours is; what is wrong with the server is not told in detail."""
    status, code = error.http_status, error.code
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        again = (("Retry-After", str(_TRY_AGAIN_S)),) if status == HTTPStatus.SERVICE_UNAVAILABLE else ()
        return Problem(status, code, titles().get(code, "Something went wrong."), headers=again)
    more = {name: getattr(error, name, None) for name in ("path", "run_id", "signal")}
    headers = (("Retry-After", str(max(1, math.ceil(error.seconds)))),) if isinstance(error, RateLimited) else ()
    return Problem(status, code, str(error), headers=headers, **more)
