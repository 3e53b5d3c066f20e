"""The page that sends a signal to a run, with a form made of what the saga declares."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from celery_saga.core.records import RunRecord
from celery_saga.definition.schemas import value_schema
from celery_saga.errors import InvalidPayload, SagaError
from contrib_django.admin.addresses import address_of_run
from contrib_django.admin.asking import run_or_404, title_of
from contrib_django.admin.bound import known_saga, sagas
from contrib_django.admin.reading import live_steps
from contrib_django.admin.schema_form import SchemaForm, add_refusal, once
from contrib_django.admin.telling import log, refused
from contrib_django.admin.words import badge
from contrib_django.permissions import may

__all__ = ["signal"]


class SignalForm(SchemaForm):
    """The value of a signal, and its id.

    Args:
        schema: of the value; {}: anything.
        has_name: the saga declares no signals, so the name is asked too.
    """

    def __init__(self, schema: dict[str, Any], *args: Any, has_name: bool = False, **kwargs: Any) -> None:
        shared = schema.pop("$defs", {})
        whole = {"type": "object", "properties": {"value": schema}, "required": ["value"] if schema else []}
        super().__init__({**whole, "$defs": shared}, *args, **kwargs)
        if has_name:
            name = forms.CharField(label="Signal", max_length=200, widget=AdminTextInputWidget())
            self.fields["signal_name"] = name
            self.order_fields(["signal_name"])
        self.fields["signal_id"] = forms.CharField(
            label="Id",
            required=False,
            max_length=200,
            widget=AdminTextInputWidget(),
            help_text="The same signal sent twice with one id counts once. Empty: a new one.",
        )
        self.fields["once"] = once()
        for part in self.parts:
            self.fields[part.name].label = part.name.removeprefix("value.")

    @property
    def sent_as(self) -> str | None:
        """The id that was given; else one for the form, so that a double click sends it once."""
        shown_as: str = self.cleaned_data["once"]
        return self.cleaned_data["signal_id"] or (f"form-{shown_as}" if shown_as else None)


def signal(request: HttpRequest, site: Any, run_id: str) -> HttpResponse:
    """GET: the form. POST: the signal is sent, or refused at its fields."""
    if not may(request.user, "view") or not may(request.user, "signal"):
        raise PermissionDenied
    run = run_or_404(run_id)
    saga = known_saga(run.saga, run.version) or known_saga(run.saga)
    declared = {} if saga is None else dict(saga.signals)
    waited = [step["task"] for step in live_steps(run.id, run.generation) if step["kind"] == "signal"]
    name = request.GET.get("signal") or next((each for each in waited if each in declared), next(iter(declared), ""))
    if declared and name not in declared:
        name = next(iter(declared))
    schema = value_schema(declared[name].type) if name in declared else {}
    form = SignalForm(schema, request.POST if request.method == "POST" else None, has_name=not declared)
    if request.method == "POST" and form.is_valid():
        try:
            return _sent(request, run, form, name)
        except InvalidPayload as error:
            add_refusal(form, _of_value(error, name), inside="value")
        except SagaError as error:
            refused(request, error)
            return HttpResponseRedirect(address_of_run(request, run_id))
    context = {
        **site.each_context(request),
        "title": f"Send a signal: {title_of(run)}",
        "run": run,
        "badge": badge(run.status.value),
        "form": form,
        "name": name,
        "declared": list(declared),
        "waited": waited,
        "back": address_of_run(request, run_id),
    }
    return TemplateResponse(request, "admin/celery_saga/run/signal.html", context)


def _sent(request: HttpRequest, run: RunRecord, form: SignalForm, name: str) -> HttpResponse:
    name = name or form.cleaned_data["signal_name"]
    value = form.payload.get("value")
    delivery = sagas().get(run.id).signal(name, value, id=form.sent_as)
    said = "A wait has taken it." if delivery == "delivered" else "It is kept until a wait takes it."
    log(request, run.id, title_of(run), f"Sent the signal {name}. {said}")
    messages.success(request, f"The signal {name} was sent. {said}")
    return HttpResponseRedirect(address_of_run(request, run.id))


def _of_value(error: InvalidPayload, name: str) -> InvalidPayload:
    """The same, with a path that begins with the field."""
    path = (error.path or "").replace(f"signal {name!r}", "value", 1)
    return InvalidPayload(str(error), path=path)
