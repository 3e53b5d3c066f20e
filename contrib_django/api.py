"""The HTTP API as a Django include: views over the same core as every other mount."""

from __future__ import annotations

from typing import Unpack

from celery import Celery
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, re_path
from django.views.decorators.csrf import csrf_exempt

from celery_saga.http import Authorizer
from celery_saga.http.api import ApiOptions, mounted
from celery_saga.runtime.app import CelerySaga
from contrib_django.transactions import outside_requests
from contrib_django.translating import answer_of, request_of

__all__ = ["urls"]


def urls(
    app: Celery | CelerySaga, authorizer: Authorizer | None = None, **options: Unpack[ApiOptions]
) -> list[URLPattern]:
    """Patterns for `path("sagas/", include(urls(app, authorizer)))`.

    Bodies must be `application/json`, which a form of another site cannot send, so its views need no CSRF token; links
    with tokens are answered to whoever holds them.

    Args:
        app: the Celery app, with celery_saga added.
        authorizer: allows; `request.user` is Django's, `request.native` Django's request; None: every data route is
            forbidden.
        options: as of `celery_saga.http.Api`.
    Raises:
        DefinitionError: celery_saga was not added to the app, or an option is not allowed.
    """
    api = mounted("urls()", app, authorizer, options)

    @csrf_exempt  # type: ignore[untyped-decorator]
    def view(request: HttpRequest, path: str) -> HttpResponse:
        return answer_of(api.handle(request_of(request, path)))

    return [re_path(r"^(?P<path>.*)\Z", outside_requests(view), name="celery_saga_api")]
