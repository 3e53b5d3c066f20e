"""The pages that start a run: which saga, and a form made of what its body takes."""

from __future__ import annotations

import inspect
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from celery_saga.definition.saga import Saga
from celery_saga.definition.schemas import parameters_schema
from celery_saga.errors import InvalidPayload, SagaError
from contrib_django.admin.addresses import address, address_of_run
from contrib_django.admin.bound import known_saga, known_sagas, sagas
from contrib_django.admin.schema_form import JsonField, SchemaForm, add_refusal, once
from contrib_django.admin.telling import ADDITION, log, refused
from contrib_django.permissions import may

__all__ = ["choose", "start"]

_OPTIONS = ("run-key", "run-delay", "run-more")
"""Names that no parameter of a body can have."""


class StartForm(SchemaForm):
    """What a body takes, and the options of the start.

    Args:
        saga: whose run is started.
    """

    def __init__(self, saga: Saga[Any, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(parameters_schema(saga.payload), *args, **kwargs)
        kinds = [each.kind for each in saga.payload.signature.parameters.values()]
        if inspect.Parameter.VAR_KEYWORD in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
            self.fields["run-more"] = JsonField(
                label="More arguments", required=False, help_text="JSON object of further keyword arguments."
            )
        self.fields["run-key"] = forms.CharField(
            label="Key",
            required=False,
            max_length=255,
            widget=AdminTextInputWidget(),
            help_text="Two starts with one key are one run. Empty: as the saga makes it, if it makes one.",
        )
        self.fields["run-once"] = once()
        self.fields["run-delay"] = forms.FloatField(
            label="Delay", required=False, min_value=0, help_text="Seconds until it begins. Empty: at once."
        )

    @property
    def option_fields(self) -> list[forms.BoundField]:
        """Fields of the start itself."""
        return [self[name] for name in _OPTIONS if name in self.fields]

    @property
    def argument_fields(self) -> list[forms.BoundField]:
        """Fields of what the body takes."""
        return [self[part.name] for part in self.parts]


def choose(request: HttpRequest, site: Any) -> HttpResponse:
    """The sagas that the project knows."""
    if not may(request.user, "start"):
        raise PermissionDenied
    found = [
        {
            "name": each.name,
            "version": each.version,
            "about": inspect.getdoc(each) or "",
            "takes": ", ".join(each.payload.signature.parameters),
            "url": address(request, "celery_saga_start_saga", each.name),
        }
        for each in known_sagas()
    ]
    context = {**site.each_context(request), "title": "Start a run", "sagas": found}
    return TemplateResponse(request, "admin/celery_saga/run/choose.html", context)


def start(request: HttpRequest, site: Any, name: str) -> HttpResponse:
    """GET: the form. POST: the run is started, or refused at its fields."""
    if not may(request.user, "start"):
        raise PermissionDenied
    saga = known_saga(name)
    if saga is None:
        raise Http404(f"the project knows no saga {name!r}")
    form = StartForm(saga, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            return _started(request, saga, form)
        except InvalidPayload as error:
            add_refusal(form, error)
        except SagaError as error:
            refused(request, error)
            # With another one: the run that was there may be what an earlier look of this form has started.
            fresh = form.get_initial_for_field(form.fields["run-once"], "run-once")
            form.data = {**form.data.dict(), "run-once": fresh}
    context = {
        **site.each_context(request),
        "title": f"Start a run of {saga.name}",
        "saga_name": saga.name,
        "about": inspect.getdoc(saga) or "",
        "form": form,
        "back": address(request, "celery_saga_run_changelist"),
    }
    return TemplateResponse(request, "admin/celery_saga/run/start.html", context)


def _started(request: HttpRequest, saga: Saga[Any, Any], form: StartForm) -> HttpResponse:
    told = form.cleaned_data
    more = told.get("run-more")
    if more is not None and not isinstance(more, dict):
        raise InvalidPayload("Write a JSON object.", path="run-more")
    args, kwargs = _call(saga, {**form.payload, **(more or {})})
    key = told["run-key"] or _key_of_form(saga, form, args, kwargs)
    given = {"key": key, "countdown": told["run-delay"]}
    options = {name: value for name, value in given.items() if value is not None}
    handle = (saga.options(**options) if options else saga).start_at(sagas(), *args, **kwargs)
    if handle.created:
        log(request, handle.id, f"{saga.name} {handle.key or handle.id}", "Started in the admin.", ADDITION)
        messages.success(request, f"A run of {saga.name} was started.")
    else:
        messages.warning(request, "There was a run with this key and these arguments; nothing was started.")
    back = address_of_run(request, handle.id) if may(request.user, "view") else address(request, "index")
    return HttpResponseRedirect(back)


def _key_of_form(saga: Saga[Any, Any], form: StartForm, args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """Where the saga makes no key: one for the form, so that a double click starts one run."""
    shown_as: str = form.cleaned_data["run-once"]
    limit_bytes = sagas().engine.limits.max_payload_bytes
    has_none = bool(shown_as) and saga.new_run(tuple(args), kwargs, limit_bytes=limit_bytes).key is None
    return f"form-{shown_as}" if has_none else None


def _call(saga: Saga[Any, Any], given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position where a body takes them by position only."""
    only = inspect.Parameter.POSITIONAL_ONLY
    first = [each.name for each in saga.payload.signature.parameters.values() if each.kind is only]
    args: list[Any] = []
    for name in first:
        if name not in given:
            break
        args.append(given.pop(name))
    return args, given
