"""The compensation desk as a page, and its count beside its name wherever the admin lists what it has."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from celery_saga.client.desk import DeskEntry, FailingUndo
from celery_saga.errors import SagaError
from contrib_django.admin.addresses import address, address_of_run
from contrib_django.admin.bound import sagas
from contrib_django.admin.showing import failure_of
from contrib_django.admin.telling import refused
from contrib_django.admin.verbs import VERBS, Verb, permission_verb
from contrib_django.admin.words import ago, badge, now_at
from contrib_django.models import Run
from contrib_django.permissions import may

__all__ = ["MOST", "count", "count_of", "desk", "show_count"]

MOST = 99
"""The count goes so far; above it there are `99+`."""

_PAGE = 25
_OF_UNDO = {"retry_undo": ("retry_undo",), "resolve_undo": ("undo_done", "undo_skipped")}


def count() -> str:
    """How many runs need a person: at most one statement, over an index that has only these. "" where nobody knows."""
    waiting = Run.objects.filter(attention_at__isnull=False)
    try:
        with transaction.atomic(using=waiting.db):  # the tables may not be there yet
            found = len(waiting.values_list("pk")[: MOST + 1])
    except DatabaseError:
        return ""
    return f"{MOST}+" if found > MOST else str(found)


def desk(request: HttpRequest, site: Any) -> HttpResponse:
    """Runs that need a person, the one that has waited longest first, with what can be done about each."""
    if not may(request.user, "view"):
        raise PermissionDenied
    saga = request.GET.get("saga") or None
    entries, after, was_read = [], None, False
    try:
        page = sagas().desk(saga=saga, limit=_PAGE, after=request.GET.get("after") or None)
        entries, after = [_entry(request, each) for each in page], page.next
        was_read = True
    except SagaError as error:
        refused(request, error)
    context = {
        **site.each_context(request),
        "title": "Compensation desk",
        "entries": entries,
        "after": after,
        "saga": saga,
        "was_read": was_read,
        "goes_on": "after" in request.GET,
        "count": count_of(request),
    }
    return TemplateResponse(request, "admin/celery_saga/run/desk.html", context)


def _entry(request: HttpRequest, entry: DeskEntry) -> dict[str, Any]:
    run = entry.run
    links = [name for name in entry.verbs if name in VERBS and name != "skip"]
    found = [_link(request, VERBS[name], run.id) for name in links if may(request.user, permission_verb(name))]
    if "skip" in entry.verbs and may(request.user, "skip"):
        found.append(_link(request, VERBS["skip"], run.id, run.error_step))
    return {
        "run": run,
        "url": address_of_run(request, run.id),
        "badge": badge(run.status.value),
        "why": entry.why.replace("_", " "),
        "sentence": entry.sentence,
        "since": entry.since,
        "ago": ago(entry.since, now_at()),
        "error": failure_of(run.error),
        "undos": [_undo(request, run.id, undo) for undo in entry.undos],
        "verbs": found,
    }


def _undo(request: HttpRequest, run_id: str, undo: FailingUndo) -> dict[str, Any]:
    names = [name for verb in undo.verbs for name in _OF_UNDO.get(verb, ())]
    allowed = [VERBS[name] for name in names if may(request.user, permission_verb(name))]
    return {
        "step": undo.step,
        "task": undo.task,
        "badge": badge(undo.status.value),
        "failures": undo.failures,
        "stalls": undo.stalls,
        "error": failure_of(undo.error),
        "next_try_at": undo.next_try_at,
        "verbs": [_link(request, verb, run_id, undo.step) for verb in allowed],
    }


def _link(request: HttpRequest, verb: Verb, run_id: str, step: str | None = None) -> dict[str, Any]:
    query = {"from": "desk", **({} if step is None else {"step": step})}
    url = f"{address(request, 'celery_saga_do', run_id, verb.name)}?{urlencode(query)}"
    return {"label": verb.label, "is_grave": verb.is_grave, "url": url}


# -- the count ------------------------------------------------------------------------------------------------------
def count_of(request: HttpRequest) -> str:
    """The count, asked for once a request."""
    there: str | None = getattr(request, "_celery_saga_desk", None)
    if there is None:
        there = count()
        request._celery_saga_desk = there
    return there


def show_count(site: AdminSite) -> None:
    """Let a site list the desk with its count beside the runs, on its index, in its sidebar, and on the app's page."""
    if hasattr(site, "_celery_saga_desk"):
        return
    site._celery_saga_desk = True
    plain = site.get_app_list

    def get_app_list(request: HttpRequest, *args: Any, **kwargs: Any) -> list[Any]:
        apps: list[Any] = plain(request, *args, **kwargs)
        for app in apps:
            if app["app_label"] == Run._meta.app_label and may(request.user, "view"):
                app["models"] = [*app["models"], _listed(site, request)]
        return apps

    site.get_app_list = get_app_list


def _listed(site: AdminSite, request: HttpRequest) -> dict[str, Any]:
    found = count_of(request)
    try:
        url = reverse("admin:celery_saga_desk", current_app=site.name)
    except NoReverseMatch:  # this site shows no runs
        url = None
    return {
        "name": f"Compensation desk ({found})" if found else "Compensation desk",
        "object_name": "Desk",
        "perms": {"add": False, "change": False, "delete": False, "view": True},
        "admin_url": url,
        "add_url": None,
        "view_only": True,
    }
