"""The HTTP API for Django's users: who may do what is said by permissions, and a session needs its CSRF token."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import URLPattern, re_path

from celery_saga.client import binding
from celery_saga.http import Api, Request, Response
from celery_saga.http.problems import Problem
from celery_saga.http.responses import of_problem
from contrib_django.permissions import may, may_see_payloads
from contrib_django.transactions import outside_requests
from contrib_django.translating import answer_of, request_of

__all__ = ["allows", "guarded_urls"]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_VERB = re.compile(r"^/(?:runs/[^/]+|lanes)/([a-z-]+)$")
_DESCRIBES = re.compile(r"^/(?:openapi\.json|health|sagas(?:/[^/]+)?)$")
_EXPORT = re.compile(r"^/runs/[^/]+/export$")
_PAYLOADS = frozenset({"input", "result", "args", "kwargs", "value", "traceback"})
_HIDDEN = "••••••"


def guarded_urls() -> list[URLPattern]:
    """Patterns for `include`: the HTTP API of the project's Celery app."""
    return [re_path(r"^(?P<path>.*)\Z", outside_requests(_Guarded()), name="celery_saga_api")]


def allows(action: str, subject: object, request: Request) -> object:
    """Tells the API what a user may do: the name of the user, for the history, or False.

    `read` is `view_run`; every other route is its verb in `contrib_django.permissions.PERMISSIONS`. An export holds
    payloads in full, and needs `view_payload` too.
    """
    user: Any = request.user
    if user is None or not user.is_authenticated:
        return False
    if action == "read":
        allowed = may(user, "view") and (may_see_payloads(user) or not _EXPORT.match(request.path))
    elif action in ("start", "signal"):
        allowed = may(user, action)
    else:
        found = _VERB.match(request.path)
        allowed = found is not None and may(user, found[1].replace("-", "_"))
    return str(user.get_username()) if allowed else False


class _Guarded:
    """The view, whose API is made when it is first asked: the Celery app is there by then."""

    csrf_exempt = True
    """It asks for the token itself: who comes without a session has none, nor has who follows a link of a mail."""

    @cached_property
    def api(self) -> Api:
        """Of the project's app."""
        bound: Any = binding.current()
        return Api(bound, allows)

    def __call__(self, request: HttpRequest, path: str) -> HttpResponse:
        asked = request_of(request, path)
        refusal = None if path.startswith("tokens/") else _wants_token(request)
        if refusal is not None:
            problem = Problem(403, "CSRF_FAILED", f"{request.method} {asked.path}: {refusal}; nothing was changed.")
            return answer_of(of_problem(problem))
        response = self.api.handle(asked)
        if _DESCRIBES.match(asked.path) or path.startswith("tokens/") or may_see_payloads(asked.user):
            return answer_of(response)
        return answer_of(_without_payloads(response))


def _wants_token(request: HttpRequest) -> str | None:
    """Why the CSRF token of a session does not do; None: it does, or nobody is known by a session."""
    if request.method in _SAFE or not _knows_by_session(request):
        return None
    guard = _Guard(lambda request: HttpResponse())
    guard.process_request(request)
    found: str | None = guard.process_view(request, lambda: None, (), {})
    return found


def _knows_by_session(request: HttpRequest) -> bool:
    session: Any = getattr(request, "session", None)
    return session is not None and "_auth_user_id" in session


class _Guard(CsrfViewMiddleware):
    """Django's own check, which tells its reason instead of showing a page."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return f"CSRF: {reason}"


def _without_payloads(response: Response) -> Response:
    """The same answer for who may not see payloads."""
    kind = next((value for name, value in response.headers if name.lower() == "content-type"), "")
    if not response.body or "json" not in kind or response.status >= 400:
        return response
    body = json.dumps(_hidden(json.loads(response.body)), ensure_ascii=False).encode()
    headers = tuple((n, str(len(body)) if n.lower() == "content-length" else v) for n, v in response.headers)
    return Response(response.status, headers, body)


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _veiled(each) if name in _PAYLOADS else _hidden(each) for name, each in value.items()}
    return [_hidden(each) for each in value] if isinstance(value, list) else value


def _veiled(value: Any) -> Any:
    return None if value is None else _HIDDEN
