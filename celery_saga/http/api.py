"""The API without a framework: finds the route of a request, asks who may, and answers."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from celery import Celery

from celery_saga.core.masking import masked
from celery_saga.core.records import RunRecord
from celery_saga.errors import DefinitionError, SagaError
from celery_saga.http import openapi, strict, tokens
from celery_saga.http.access import Access, Authorizer
from celery_saga.http.call import Call
from celery_saga.http.messages import Request, Response
from celery_saga.http.patience import Patience
from celery_saga.http.problems import Problem, forbidden, of_error
from celery_saga.http.responses import of_document, of_problem, without_body
from celery_saga.http.routes import ROUTES, Route
from celery_saga.runtime.app import CelerySaga
from celery_saga.store.backlog import backlog

__all__ = ["Api", "ApiOptions", "mounted", "whole"]

logger = logging.getLogger("celery_saga.http")

_BESIDE_PAYLOAD_BYTES = 64 * 1024
_BROKEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_TOKEN = re.compile(r"/tokens/([^/]+)")
_MAX_ID = 255  # characters
_MAX_INT = 2_147_483_647
_OF_THE_SERVER = range(500, 600)


@dataclass(frozen=True, slots=True)
class _Open:
    """Methods of a path that needs no authorizer."""

    GET: Callable[[Request], Response]
    POST: Callable[[Request], Response] | None = None


class ApiOptions(TypedDict, total=False):
    """Options of an `Api`, as the mounts take them."""

    tokens: bool
    max_body_bytes: int | None
    waiting: int


class Api:
    """Runs over HTTP; thread-safe, and safe to be made before a fork.

    Args:
        app: the Celery app, with celery_saga added, or its CelerySaga.
        authorizer: allows; None: every route but the OpenAPI document, the health and the tokens' is forbidden.
        tokens: whether links with tokens are served.
        max_body_bytes: longest body; None: `saga_max_payload_bytes` and 64 KiB.
        waiting: how many requests may wait for events at once.
    Raises:
        DefinitionError: celery_saga was not added to the app, or an option is not allowed.
    """

    def __init__(
        self,
        app: Celery | CelerySaga,
        authorizer: Authorizer | None = None,
        *,
        tokens: bool = True,
        max_body_bytes: int | None = None,
        waiting: int = 8,
    ) -> None:
        self._saga = _extension(app)
        if authorizer is not None and not callable(authorizer):
            raise _refused("authorizer", "a function of action, run and request, or None", authorizer)
        if not isinstance(tokens, bool):
            raise _refused("tokens=", "True or False", tokens)
        if max_body_bytes is not None:
            whole(max_body_bytes, "max_body_bytes=")
        self._access = Access(authorizer)
        self._tokens = tokens
        self._max_body_bytes = max_body_bytes
        self._patience = Patience(whole(waiting, "waiting="))
        self._lock = threading.Lock()
        self._is_loaded = False

    @property
    def max_body_bytes(self) -> int:
        """Longest body that is read."""
        if self._max_body_bytes is not None:
            return self._max_body_bytes
        return self._saga.services.settings.max_payload_bytes + _BESIDE_PAYLOAD_BYTES

    def body_limit(self) -> int | None:
        """`max_body_bytes`; None where the app's settings cannot be read, which the next request is told."""
        try:
            self._load()
            return self.max_body_bytes
        except Exception:
            logger.exception("the app cannot be loaded")
            return None

    def handle(self, request: Request) -> Response:
        """The answer to a request; whatever goes wrong is one too."""
        if request.method == "HEAD":
            return without_body(self._handle(replace(request, method="GET")))
        return self._handle(request)

    def _handle(self, request: Request) -> Response:
        try:
            self._load()
            return self._answer(request)
        except Problem as problem:
            return of_problem(problem)
        except SagaError as error:
            if error.http_status in _OF_THE_SERVER:
                logger.warning("%s %s: %s: %s", request.method, masked(request.path), error.code, error)
            return of_problem(of_error(error))
        except Exception:
            logger.exception("%s %s failed", request.method, masked(request.path))
            return of_problem(Problem(500, "INTERNAL_ERROR", "something unexpected went wrong; the log tells what."))

    def _load(self) -> None:
        """Know the sagas as a worker does: by the modules that the configuration names."""
        if self._is_loaded:
            return
        with self._lock:
            if not self._is_loaded:
                self._saga.app.loader.import_default_modules()
                self._saga.app.finalize()
                self._is_loaded = True

    def _answer(self, request: Request) -> Response:
        if _BROKEN.search(request.path):
            raise _unknown(request)
        open_ = self._open(request)
        if open_ is not None:
            return self._answer_open(request, open_)
        found = [(route, match) for route in ROUTES if (match := route.pattern.fullmatch(request.path))]
        if not found:
            raise _unknown(request)
        for route, match in found:
            if route.method == request.method:
                return self._answer_route(request, route, match.groupdict())
        return _otherwise(request, [route.method for route, _ in found])

    # -- routes that need no authorizer --------------------------------------------------------------------------
    def _open(self, request: Request) -> _Open | None:
        if request.path == "/openapi.json":
            return _Open(lambda r: of_document(200, openapi.document(r.root or "/", tokens=self._tokens)))
        if request.path == "/health":
            return _Open(lambda _: self._health())
        match = _TOKEN.fullmatch(request.path)
        if match is None or not self._tokens:
            return None
        token = match[1]
        return _Open(
            lambda r: tokens.show(self._saga, r, token),
            lambda r: tokens.redeem(self._saga, r, token, self.max_body_bytes),
        )

    def _answer_open(self, request: Request, open_: _Open) -> Response:
        if request.method == "GET":
            return open_.GET(request)
        if request.method == "POST" and open_.POST is not None:
            return open_.POST(request)
        return _otherwise(request, ["GET"] if open_.POST is None else ["GET", "POST"])

    def _health(self) -> Response:
        return of_document(200, {"status": "ok", **backlog(self._saga.store).document()})

    # -- data routes ---------------------------------------------------------------------------------------------
    def _answer_route(self, request: Request, route: Route, parts: dict[str, str]) -> Response:
        call = Call(self._saga, self._access, self._patience, request, parts)
        if not route.later:
            call = self._allowed(call, route)
        elif not self._access.is_there:
            raise forbidden(f"{request.method} {request.path}")
        call = replace(call, query=strict.query_of(request, route.query))
        if route.body is not None:
            call = replace(call, body=strict.body_of(request, route.body, self.max_body_bytes))
        answer = route.handler(call)
        return of_document(answer.status, answer.document, answer.headers)

    def _allowed(self, call: Call, route: Route) -> Call:
        if "run" in call.parts:
            record, grant = self._access.need_run(route.action, call.parts["run"], self._record, call.request)
            return replace(call, record=record, by=grant.by)
        subject = call.parts["saga"] if route.action == "start" else None
        return replace(call, by=self._access.need(route.action, subject, call.request).by)

    def _record(self, run_id: str) -> RunRecord | None:
        loaded = self._saga.store.load(run_id) if len(run_id) <= _MAX_ID else None
        return None if loaded is None else loaded.snapshot.run


def mounted(
    call: str, app: Celery | CelerySaga, authorizer: Authorizer | None, options: Mapping[str, Any], *own: str
) -> Api:
    """The API that a mount answers with.

    Args:
        call: how errors call the mount.
        options: of `Api`.
        own: names of the options that the mount has beside them.
    Raises:
        DefinitionError: celery_saga was not added to the app, or an option is unknown or not allowed.
    """
    unknown = sorted(set(options) - ApiOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(sorted({*ApiOptions.__annotations__, *own}))
        raise DefinitionError(f"{call} does not know the option {unknown[0]!r}; it takes {known}; nothing was mounted")
    return Api(app, authorizer, **options)


def _extension(app: Any) -> CelerySaga:
    if isinstance(app, CelerySaga):
        return app
    if not isinstance(app, Celery):  # a proxy of one is one
        raise _refused("app", "the Celery app with celery_saga added, or its CelerySaga", app)
    return CelerySaga.of(app)


def whole(value: object, what: str) -> int:
    """A number from 1 to 2147483647.

    Raises:
        DefinitionError: it is none; nothing was mounted.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_INT:
        raise _refused(what, f"a whole number from 1 to {_MAX_INT}", value)
    return value


def _refused(what: str, allowed: str, value: object) -> DefinitionError:
    return DefinitionError(f"the HTTP API: {what} must be {allowed}, got {repr(value)[:200]}; nothing was mounted.")


def _unknown(request: Request) -> Problem:
    return Problem(404, "NOT_FOUND", "there is no such route; openapi.json has those that there are.")


def _otherwise(request: Request, methods: list[str]) -> Response:
    """The answer to OPTIONS, and to a method that the path does not take."""
    allowed = sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})
    headers: tuple[tuple[str, Any], ...] = (("Allow", ", ".join(allowed)),)
    if request.method == "OPTIONS":
        return Response(204, (*headers, ("Cache-Control", "no-store")), b"")
    told = f"this route takes {', '.join(allowed)}; nothing was done."
    raise Problem(405, "METHOD_NOT_ALLOWED", told, headers=headers)
