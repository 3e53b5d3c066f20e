"""Translates between Django's requests and responses and those that every mount of the HTTP API has."""

from __future__ import annotations

from urllib.parse import quote

from django.http import HttpRequest, HttpResponse

from celery_saga.http import Request, Response

__all__ = ["answer_of", "request_of"]


def answer_of(response: Response) -> HttpResponse:
    """A response as Django has it."""
    answer = HttpResponse(response.body, status=response.status)
    del answer["Content-Type"]
    for name, value in response.headers:
        answer[name] = value
    return answer


def request_of(request: HttpRequest, path: str) -> Request:
    """What was asked, as every mount gives it.

    Args:
        path: below the place where the API is mounted, without a slash before it.
    """
    return Request(
        method=str(request.method).upper(),
        path=f"/{path}",
        query=request.META.get("QUERY_STRING", ""),
        headers={name.lower(): value for name, value in request.headers.items()},
        root=quote(request.path.removesuffix(path), errors="replace").rstrip("/"),
        user=getattr(request, "user", None),
        native=request,
        read=request.read,
    )
