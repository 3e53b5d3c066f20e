"""Makes responses: documents as JSON, problems, pages; with the headers that each has."""

from __future__ import annotations

import json
from typing import Any

from celery_saga.http import page
from celery_saga.http.messages import Response
from celery_saga.http.problems import PROBLEM, Problem

__all__ = ["of_document", "of_page", "of_problem", "without_body"]

_ALWAYS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


def of_document(
    status: int, document: Any, headers: tuple[tuple[str, str], ...] = (), media_type: str = "application/json"
) -> Response:
    """A document as JSON."""
    try:
        body = json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, in the text of an error
        body = json.dumps(document).encode()
    return _response(status, media_type, body, headers)


def of_problem(problem: Problem) -> Response:
    """A problem document."""
    return of_document(problem.status, problem.document(), problem.headers, PROBLEM)


def of_page(status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A page for people."""
    return _response(status, page.HTML, text.encode("utf-8", "replace"), (*page.headers(), *headers))


def without_body(response: Response) -> Response:
    """The answer to HEAD: as to GET, the length of its body included, but for the body itself."""
    return Response(response.status, response.headers, b"")


def _response(status: int, media_type: str, body: bytes, headers: tuple[tuple[str, str], ...]) -> Response:
    own = (("Content-Type", media_type), ("Content-Length", str(len(body))))
    return Response(status, (*own, *_ALWAYS, *headers), body)
