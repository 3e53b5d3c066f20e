"""What is done to many runs: the library's bulk verbs, tried first, then asked for, then done."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from celery_saga.client.bulk import VERBS, BulkAction, BulkResult, Refused, bulk, steering
from celery_saga.client.page import Page
from celery_saga.core.masking import masked
from celery_saga.core.records import RunRecord
from celery_saga.errors import SagaError
from contrib_django.admin.addresses import address
from contrib_django.admin.bound import sagas
from contrib_django.admin.reading import record
from contrib_django.admin.telling import log, refused, who
from contrib_django.admin.words import badge
from contrib_django.permissions import may

__all__ = ["BULK", "many"]

BULK = {name: name for name in VERBS if name != "signal"} | {"compensate": "undo"}
"""The verbs for many runs, and what they are called."""

_MOST = 1000
_SHOWN = 100
_NAMED = 5
_FILTERS = ("saga", "version", "status", "tag", "since", "until", "attention")


class BulkForm(forms.Form):
    """Why, and for a cancel whether the undos follow."""

    def __init__(self, verb: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if verb == "cancel":
            self.fields["compensate"] = forms.BooleanField(
                label="Undo what they have done", required=False, initial=True, help_text="Unchecked: no undos."
            )
        self.fields["reason"] = forms.CharField(
            max_length=2000,
            widget=AdminTextareaWidget(attrs={"rows": 2}),
            help_text="Why; it stands in the history of each run beside your name.",
        )


def many(request: HttpRequest, site: Any, verb: str, filters: dict[str, Any], ids: list[str]) -> HttpResponse:
    """Show what a verb would do to runs, and do it once that was confirmed.

    Args:
        filters: as of `app.saga.runs`; used where no ids are given.
        ids: of the runs that were picked, or that the page that asked has shown: what filters name is only tried.
    """
    if verb not in BULK:
        raise Http404(f"there is no bulk verb {verb!r}")
    if not may(request.user, "view") or not may(request.user, verb):
        raise PermissionDenied
    is_confirmed = request.method == "POST" and "confirmed" in request.POST and bool(ids)
    form = BulkForm(verb, request.POST if is_confirmed else None)
    back = address(request, "celery_saga_run_changelist")
    try:
        if is_confirmed and form.is_valid():
            told: dict[str, Any] = {"compensate": True, **form.cleaned_data}
            done = _apply(verb, filters, ids, dry_run=False, by=who(request), **told)
            _tell(request, verb, done, told["reason"])
            return HttpResponseRedirect(back)
        plan = _apply(verb, filters, ids, dry_run=True, by=who(request), compensate=True, reason="")
    except SagaError as error:
        refused(request, error)
        return HttpResponseRedirect(back)
    refusals = {each.run_id: f"{each.code}: {masked(each.why)}" for each in plan.refused}
    rows = [
        {"run": run, "badge": badge(run.status.value), "what": refusals.get(run.id) or _what(plan, run.id)}
        for run in plan.runs[:_SHOWN]
    ]
    context = {
        **site.each_context(request),
        "title": f"{BULK[verb].capitalize()} {plan.matched} run{'' if plan.matched == 1 else 's'}",
        "verb": verb,
        "word": BULK[verb],
        "plan": plan,
        "rows": rows,
        "more": max(plan.matched - _SHOWN, 0),
        "most": _MOST,
        "form": form,
        "ids": " ".join(ids or (run.id for run in plan.runs)),
        "filters": {name: value for name, value in filters.items() if value},
        "back": back,
    }
    return TemplateResponse(request, "admin/celery_saga/run/bulk.html", context)


def _apply(
    verb: str, filters: dict[str, Any], ids: list[str], *, dry_run: bool, compensate: bool, reason: str, by: str
) -> BulkResult:
    bound = sagas()
    if not ids:
        given = {name: value for name, value in filters.items() if name in _FILTERS and value}
        told: dict[str, Any] = {"compensate": compensate, "reason": reason, "by": by, "limit": _MOST}
        return bound.bulk(verb, dry_run=dry_run, **told, **given)
    action = steering(bound.engine, verb, compensate=compensate, reason=reason, by=by)

    def real(run_id: str) -> bool:
        has_changed = action.real(run_id)
        bound.after_start(run_id)
        return has_changed

    picked = BulkAction(verb, real, action.dry)
    lists: Any = partial(_picked, ids)
    return bulk(picked, lists, {"status": "any"}, dry_run=dry_run, limit=_MOST, after=None)


def _picked(wanted: Iterable[str], call: str, **_: Any) -> Page[RunRecord]:
    """The runs with these ids as one page, whatever their status."""
    return Page(tuple(found for each in wanted if (found := record(each)) is not None), None)


def _reason(refused: Refused) -> tuple[str, str]:
    return refused.code, refused.why


def _what(plan: BulkResult, run_id: str) -> str:
    return "nothing to change" if run_id in plan.unchanged else ""


def _tell(request: HttpRequest, verb: str, done: BulkResult, reason: str) -> None:
    titles = {run.id: f"{run.saga} {run.key or run.id}" for run in done.runs}
    for run_id in done.done:
        log(request, run_id, titles.get(run_id, run_id), f"{verb}, with others: {reason}")
    said = f"{BULK[verb]}: done for {len(done.done)} of {done.matched} runs"
    rest = [f"{len(done.unchanged)} had nothing to change"] if done.unchanged else []
    messages.success(request, "; ".join([said, *rest]) + ".")
    for (code, why), refusals in groupby(sorted(done.refused, key=_reason), _reason):
        ids = [titles.get(each.run_id, each.run_id) for each in refusals]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        messages.warning(request, f"{code} for {', '.join(ids[:_NAMED])}{more}: {masked(why)}")
    if done.stopped is not None:
        messages.error(request, f"It stopped at {done.stopped.run_id}: {done.stopped.code}.")
    elif done.next is not None:
        messages.warning(request, f"There are more: {_MOST} were looked at. Do it again to go on.")
