"""The list of runs: the newest first, a page found by where the one before ended, and never counted."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.db.models import Q
from django.http import HttpRequest

from celery_saga.client.filters import place_of, run_filter
from celery_saga.errors import SagaError

__all__ = ["COLUMNS", "RunList", "found_by"]

COLUMNS = (
    *("id", "saga", "version", "key", "status", "created_at", "started_at", "ended_at", "attention_at", "reason"),
    *("generation", "lane", "tags_text", "error_step", "parent_id", "updated_at"),
)
"""What the list reads of a run: no payload."""

AFTER = "after"


class RunList(ChangeList):
    """Pages by place.

    After a page comes the one whose runs were created before its last one, so a page costs the same wherever it is and
    whatever is written meanwhile; nothing counts the runs, of which there may be millions.
    """

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.after = request.GET.get(AFTER)
        self.next_after: str | None = None
        super().__init__(request, *args, **kwargs)

    def get_filters_params(self, params: Any = None) -> Any:
        """Without the place of the page."""
        found = super().get_filters_params(params)
        found.pop(AFTER, None)
        return found

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[str]:
        """The one that the index has."""
        return ["-created_at", "-id"]

    def get_results(self, request: HttpRequest) -> None:
        """One more than fits, to know whether a page follows."""
        rows = self.queryset
        if self.after:
            rows = _behind(rows, self.after)
        found = list(rows[: self.list_per_page + 1])
        if len(found) > self.list_per_page:
            found = found[: self.list_per_page]
            self.next_after = place_of(found[-1])
        self.result_list = found
        self.result_count, self.full_result_count = len(found), None
        self.show_full_result_count = False
        self.show_admin_actions = bool(found)
        self.can_show_all = self.multi_page = False
        self.paginator = None

    def get_filters_in_address(self) -> list[tuple[str, str]]:
        """What the address asks for, but the place of the page."""
        return [(name, str(value)) for name, value in self.params.items() if name != AFTER]

    @property
    def next_address(self) -> str:
        """Address of the page that follows."""
        return str(self.get_query_string({AFTER: self.next_after}))

    @property
    def first_address(self) -> str:
        """Address of the first page."""
        return str(self.get_query_string(remove=[AFTER]))

    @property
    def filter_address(self) -> str:
        """The filters alone, for what is done to all runs that they name."""
        return self.first_address


def _behind(rows: Any, after: str) -> Any:
    none: dict[str, Any] = dict.fromkeys(("saga", "version", "status", "key", "lane", "tag", "since", "until"))
    try:
        wanted = run_filter(**none, attention=False, purged=False, limit=1, after=after)
    except SagaError:
        return rows
    if wanted.after_at is None:
        return rows
    # The first half says to an index where to begin.
    return rows.filter(Q(created_at__lt=wanted.after_at) | Q(id__lt=wanted.after), created_at__lte=wanted.after_at)


def found_by(rows: Any, text: str) -> Any:
    """Runs whose key or id is this text or begins with it, each by its index."""
    text = text.strip()
    if not text or "\0" in text:
        return rows.none() if "\0" in text else rows
    return rows.filter(_begins("key", text) | _begins("id", text))


def _begins(column: str, text: str) -> Q:
    """By range, as names are compared byte for byte: LIKE finds no index of a database with a language's order."""
    return Q(**{f"{column}__gte": text, f"{column}__lte": text + "\U0010ffff"})
