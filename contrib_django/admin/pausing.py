"""Pauses all runs of a saga, and lets them go on."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import urlencode

from celery_saga.errors import SagaError
from contrib_django.admin.addresses import address
from contrib_django.admin.bound import sagas
from contrib_django.admin.telling import log, refused, who
from contrib_django.permissions import may

__all__ = ["pause"]

_DOES = {
    "pause": "No run of this saga begins a further step until it is unpaused. What runs ends and is recorded; undos, "
    "deadlines, signals and cancels work as ever.",
    "unpause": "Runs of this saga begin steps again, as far as caps and limits allow.",
}


class PauseForm(forms.Form):
    """Why."""

    reason = forms.CharField(max_length=2000, required=False, widget=AdminTextareaWidget(attrs={"rows": 2}))


def pause(request: HttpRequest, site: Any, verb: str) -> HttpResponse:
    """GET: what it does. POST: it is done."""
    saga = request.GET.get("saga", "")
    if verb not in _DOES or not saga:
        raise Http404("there is no such page")
    if not may(request.user, verb):
        raise PermissionDenied
    back = f"{address(request, 'celery_saga_run_changelist')}?{urlencode({'saga': saga})}"
    form = PauseForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            _do(request, verb, saga, form.cleaned_data["reason"])
        except SagaError as error:
            refused(request, error)
        return HttpResponseRedirect(back)
    there = [lane for lane in sagas().lanes() if (lane.kind, lane.name) == ("saga", saga)]
    context = {
        **site.each_context(request),
        "title": f"{verb.capitalize()} all runs of {saga}",
        "verb": verb,
        "saga": saga,
        "does": _DOES[verb],
        "lane": there[0] if there else None,
        "form": form,
        "back": back,
    }
    return TemplateResponse(request, "admin/celery_saga/run/pause.html", context)


def _do(request: HttpRequest, verb: str, saga: str, reason: str) -> None:
    if verb == "pause":
        sagas().pause(saga=saga, reason=reason, by=who(request))
        said = f"No run of {saga} begins a further step until it is unpaused."
    elif sagas().unpause(saga=saga, reason=reason, by=who(request)):
        said = f"Runs of {saga} go on."
    else:
        messages.warning(request, f"{saga} was not paused; nothing was changed.")
        return
    log(request, "", f"saga {saga}", f"{verb}: {reason}")
    messages.success(request, said)
