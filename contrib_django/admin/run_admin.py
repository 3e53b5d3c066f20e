"""Runs in Django's admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django import VERSION
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.sites import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.urls.resolvers import URLPattern
from django.utils.html import format_html, format_html_join

from celery_saga.core import codec
from celery_saga.errors import SagaError
from contrib_django.admin import asking, bulk, desk, pausing, purging, run_page, signalling, starting
from contrib_django.admin.addresses import address
from contrib_django.admin.filters import FILTERS, is_filtered, library_filters
from contrib_django.admin.listing import COLUMNS, RunList, found_by
from contrib_django.admin.telling import refused
from contrib_django.admin.words import ago, badge, instant, lasted, now_at, tag
from contrib_django.models import Run
from contrib_django.permissions import may
from contrib_django.saga_database import saga_alias
from contrib_django.transactions import outside_requests

__all__ = ["RunAdmin"]

_PAGE = 100
_ELSEWHERE = (
    "Runs are kept where CELERY_SAGA_DATABASE_URL says, in none of DATABASES, so that the admin cannot read them; "
    "nothing was changed. Add that database to DATABASES, and name it in CELERY_SAGA_DATABASE instead."
)
C = TypeVar("C", bound=Callable[..., Any])


def _column(description: str) -> Callable[[C], C]:
    """A column of the list, under this name."""

    def named(method: C) -> C:
        found: C = admin.display(description=description)(method)
        return found

    return named


@admin.register(Run)
class RunAdmin(admin.ModelAdmin):
    """Lists runs; their pages are `run_page`'s. Nothing is written but by the library's verbs."""

    list_display = ("named", "saga_version", "state", "created")
    list_display_links = ("named",)
    list_filter = FILTERS
    list_per_page = _PAGE
    search_fields = ("key",)
    search_help_text = "The key or the id of a run, or how it begins"
    sortable_by = ()
    show_full_result_count = False
    show_facets = getattr(admin, "ShowFacets", None) and admin.ShowFacets.NEVER  # they would count
    actions = [f"{name}_runs" for name in bulk.BULK]

    class Media:
        """How it looks."""

        css = {"all": ("celery_saga/admin.css",)}

    def __init__(self, model: Any, admin_site: AdminSite) -> None:
        super().__init__(model, admin_site)
        desk.show_count(admin_site)

    # -- who may what ----------------------------------------------------------------------------------------------
    def has_add_permission(self, request: HttpRequest) -> bool:
        """No: a run is started by its saga."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No: the engine alone writes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No: runs are purged."""
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Also no, where runs are kept in none of Django's databases."""
        return saga_alias() is not None and bool(super().has_module_permission(request))

    # -- the list --------------------------------------------------------------------------------------------------
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RunList]:
        """Ours."""
        return RunList

    def get_queryset(self, request: HttpRequest) -> Any:
        """Runs that are there, without their payloads."""
        return Run.objects.filter(purged_at__isnull=True).only(*COLUMNS)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """No column of payloads: by comparing, who may not see them could find out what is in them."""
        if "\0" in str(value) or lookup.partition("__")[0].endswith(("_text", "_digest")):
            return False
        return bool(super().lookup_allowed(lookup, value, *(() if VERSION < (5,) else (request,))))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The run; None: there is none, nor can there be with a NUL in its id."""
        return None if "\0" in object_id or saga_alias() is None else super().get_object(request, object_id, from_field)

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """By key and id."""
        return found_by(queryset, search_term), False

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Those that the user may."""
        actions = {} if "_popup" in request.GET else {name: self.get_action(f"{name}_runs") for name in bulk.BULK}
        return {found[1]: found for name, found in actions.items() if found is not None and may(request.user, name)}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """With the desk's count, and what else can be done."""
        request.current_app = self.admin_site.name
        if saga_alias() is None:
            return self._elsewhere(request)
        links = [
            ("start", "Start a run", address(request, "celery_saga_start")),
            ("purge", "Purge old runs", address(request, "celery_saga_purge")),
        ]
        extra = {
            "title": "Runs",
            "desk_count": desk.count_of(request),
            "links": [(told, url) for verb, told, url in links if may(request.user, verb)],
            "filtered": is_filtered(request),
            "bulk_verbs": [(name, told.capitalize()) for name, told in bulk.BULK.items() if may(request.user, name)],
        }
        return super().changelist_view(request, {**extra, **(extra_context or {})})

    @_column("Run")
    def named(self, run: Any) -> Any:
        """Its key, and how its id begins."""
        # Without a key the first digits are the time: the same for all runs of a minute.
        begins = run.id[:8] if run.key else run.id[:18]
        return format_html('<span class="saga-key">{}</span> <span class="saga-id">{}</span>', run.key or "", begins)

    @_column("Saga")
    def saga_version(self, run: Any) -> Any:
        """And its version."""
        return format_html('{} <span class="saga-quiet">v{}</span>', run.saga, run.version)

    @_column("Status")
    def state(self, run: Any) -> Any:
        """Its status, whether it needs a person, where it failed, its tags."""
        parts = [badge(run.status)]
        if run.attention_at is not None:
            since = ago(run.attention_at, now_at())
            parts.append(format_html('<span class="saga-needs">⚑ needs a person, {}</span>', since))
        if run.error_step:
            parts.append(format_html('<span class="saga-quiet">at {}</span>', run.error_step))
        tags = codec.decode(run.tags_text) if run.tags_text not in ("", "[]") else []
        return format_html_join(" ", "{}", ((part,) for part in [*parts, *map(tag, tags)]))

    @_column("Started, took")
    def created(self, run: Any) -> Any:
        """When it was created, and how long it took until its end, or until now."""
        took = lasted(run.started_at or run.created_at, run.ended_at, now_at())
        return format_html('{}<br><span class="saga-quiet">{}</span>', instant(run.created_at), took)

    # -- pages -----------------------------------------------------------------------------------------------------
    def get_urls(self) -> list[URLPattern]:
        """Ours before Django's, which take anything for an id."""

        def site(view: Any) -> Any:
            return outside_requests(self.admin_site.admin_view(view))

        ours = [
            path("desk/", site(self.desk_view), name="celery_saga_desk"),
            path("start/", site(self.choose_view), name="celery_saga_start"),
            path("start/<path:name>/", site(self.start_view), name="celery_saga_start_saga"),
            path("bulk/<slug:verb>/", site(self.bulk_view), name="celery_saga_bulk"),
            path("purge/", site(self.purge_view), name="celery_saga_purge"),
            path("<slug:verb>/saga/", site(self.pause_view), name="celery_saga_pause"),
            path("<str:run_id>/do/<slug:verb>/", site(self.do_view), name="celery_saga_do"),
        ]
        return [*ours, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The page of a run."""
        return self._safe(request, lambda: run_page.page(request, self.admin_site, object_id))

    def do_view(self, request: HttpRequest, run_id: str, verb: str) -> HttpResponse:
        """Asks before it does."""
        if verb == "signal":
            return self._safe(request, lambda: signalling.signal(request, self.admin_site, run_id))
        return self._safe(request, lambda: asking.ask(request, self.admin_site, run_id, verb))

    def desk_view(self, request: HttpRequest) -> HttpResponse:
        """The compensation desk."""
        return self._safe(request, lambda: desk.desk(request, self.admin_site))

    def choose_view(self, request: HttpRequest) -> HttpResponse:
        """Which saga is to be started."""
        return self._safe(request, lambda: starting.choose(request, self.admin_site))

    def start_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """The form of a start."""
        return self._safe(request, lambda: starting.start(request, self.admin_site, name))

    def purge_view(self, request: HttpRequest) -> HttpResponse:
        """Old runs."""
        return self._safe(request, lambda: purging.purge(request, self.admin_site))

    def pause_view(self, request: HttpRequest, verb: str) -> HttpResponse:
        """All runs of a saga."""
        return self._safe(request, lambda: pausing.pause(request, self.admin_site, verb))

    def bulk_view(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Runs that were picked, or all that the filters name."""
        ids = " ".join(request.POST.getlist("ids")).split()
        return self._safe(request, lambda: bulk.many(request, self.admin_site, verb, library_filters(request), ids))

    def _elsewhere(self, request: HttpRequest) -> HttpResponse:
        messages.error(request, _ELSEWHERE)
        return HttpResponseRedirect(address(request, "index"))

    def _safe(self, request: HttpRequest, answer: Any) -> HttpResponse:
        """A refusal that no page has expected becomes a message, never an error page."""
        request.current_app = self.admin_site.name
        if saga_alias() is None:
            return self._elsewhere(request)
        try:
            found: HttpResponse = answer()
        except SagaError as error:
            refused(request, error)
            return HttpResponseRedirect(address(request, "index"))
        return found


def _action(name: str, told: str) -> Any:
    def act(model_admin: RunAdmin, request: HttpRequest, queryset: Any) -> HttpResponse:
        ids = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
        return model_admin._safe(request, lambda: bulk.many(request, model_admin.admin_site, name, {}, ids))

    act.__name__ = f"{name}_runs"
    act.short_description = f"{told.capitalize()} selected runs"  # type: ignore[attr-defined]
    return act


for _name, _told in bulk.BULK.items():
    setattr(RunAdmin, f"{_name}_runs", _action(_name, _told))
