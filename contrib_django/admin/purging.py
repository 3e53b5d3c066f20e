"""Purges runs that ended long ago: counted first, asked for, then done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from celery_saga.core.retention import PURGEABLE
from celery_saga.errors import InvalidPayload
from contrib_django.admin.addresses import address
from contrib_django.admin.bound import known_sagas, sagas
from contrib_django.admin.schema_form import add_refusal
from contrib_django.admin.telling import DELETION, log
from contrib_django.permissions import may

__all__ = ["purge"]


_MOST_DAYS = 36_500


class PurgeForm(forms.Form):
    """Which runs."""

    older_than_days = forms.FloatField(
        label="Ended more than",
        min_value=0,
        max_value=_MOST_DAYS,
        initial=90,
        help_text="Days ago. A run goes with all its children, or none of them does.",
    )
    saga = forms.ChoiceField(required=False)
    status = forms.ChoiceField(
        required=False, choices=[("", "any of these"), *((each.value, each.value) for each in PURGEABLE)]
    )
    keep_keys = forms.BooleanField(
        label="Keep the keys",
        required=False,
        initial=True,
        help_text="So that the same start does not run again. Unchecked: keys that earlier purges have kept go too.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = [(saga.name, saga.name) for saga in known_sagas()]
        self.fields["saga"].choices = [("", "any"), *names]

    def clean_older_than_days(self) -> float:
        """More than no time."""
        days: float = self.cleaned_data["older_than_days"]
        if not days:
            raise forms.ValidationError("Ended runs are older than 0 days, all of them: give a small part of a day.")
        return days

    @property
    def counted(self) -> str:
        """What was counted, to be sent with the confirmation: who changes the form afterwards has it counted again."""
        return urlencode(sorted(self.cleaned_data.items()))

    @property
    def wanted(self) -> dict[str, Any]:
        """As `app.saga.purge` takes it."""
        told = self.cleaned_data
        given = {"saga": told["saga"] or None, "status": told["status"] or None, "keep_keys": told["keep_keys"]}
        return {"older_than": timedelta(days=told["older_than_days"]), **given}


def purge(request: HttpRequest, site: Any) -> HttpResponse:
    """GET: the form. POST: counted, and done where that was confirmed."""
    if not may(request.user, "purge"):
        raise PermissionDenied
    form = PurgeForm(request.POST if request.method == "POST" else None)
    plan = None
    if request.method == "POST" and form.is_valid():
        try:
            if "confirmed" in request.POST and request.POST.get("counted") == form.counted:
                return _done(request, form)
            plan = sagas().purge(**form.wanted, dry_run=True)
        except InvalidPayload as error:
            add_refusal(form, error, inside="older_than_days")
    context = {
        **site.each_context(request),
        "title": "Purge old runs",
        "form": form,
        "plan": plan,
        "back": address(request, "celery_saga_run_changelist"),
    }
    return TemplateResponse(request, "admin/celery_saga/run/purge.html", context)


def _done(request: HttpRequest, form: PurgeForm) -> HttpResponse:
    done = sagas().purge(**form.wanted)
    log(request, "", "runs", f"Purged {done['deleted']} runs: {form.cleaned_data}", DELETION)
    messages.success(request, f"{done['deleted']} runs were purged; of {done['keys_kept']} the key was kept.")
    return HttpResponseRedirect(address(request, "celery_saga_run_changelist"))
