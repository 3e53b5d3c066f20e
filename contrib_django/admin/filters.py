"""What the list of runs can be narrowed down by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.admin import ListFilter, SimpleListFilter
from django.contrib.admin.views.main import SEARCH_VAR
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from celery_saga.core.status import RunStatus
from celery_saga.errors import InvalidPayload
from contrib_django.admin.bound import known_sagas
from contrib_django.admin.reading import whole
from contrib_django.admin.words import now_at

__all__ = ["FILTERS", "is_filtered", "library_filters"]

_MOST = 2_147_483_647


def _attention(text: str) -> bool:
    if text != "1":
        raise _unreadable("attention", text, "1, or left out")
    return True


def _version(text: str) -> int:
    found = whole(text, _MOST)
    if found is None:
        raise _unreadable("version", text, "a whole number from 1")
    return found


def _within(text: str) -> datetime:
    if text not in _SPANS:
        raise _unreadable("within", text, f"one of {', '.join(_SPANS)}")
    return now_at() - _SPANS[text]


def _instant(name: str) -> Callable[[str], datetime]:
    """What an input of the browser's means, in the current time zone."""

    def read(text: str) -> datetime:
        try:
            found: datetime | None = parse_datetime(text)
            if found is not None:
                aware: datetime = found if timezone.is_aware(found) else timezone.make_aware(found)
                return aware.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        raise _unreadable(name, text, "an instant, like 2026-12-24T18:00")

    return read


def _unreadable(name: str, text: str, wanted: str) -> InvalidPayload:
    return InvalidPayload(f"the filter {name}={text[:100]!r} must be {wanted}; no run was looked at.", path=name)


_SPANS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
_READ: Mapping[str, Callable[[str], Any]] = {
    "attention": _attention,
    "saga": str,
    "version": _version,
    "status": str,
    "tag": str,
    "within": _within,
    "since": _instant("since"),
    "until": _instant("until"),
}
"""How each filter of the address is read."""


def _narrowed(request: HttpRequest, queryset: Any, name: str, lookup: str, value: Any = None) -> Any:
    """The runs that a filter of the address lets through; none, and a message, where it cannot be read.

    Args:
        lookup: what the query compares with it.
        value: what the query compares with instead.
    """
    text = request.GET.get(name)
    if not text:
        return queryset
    try:
        found = _READ[name](text)
    except InvalidPayload as error:
        messages.error(request, f"{error.code}: {error}")
        return queryset.none()
    return queryset.filter(**{lookup: found if value is None else value})


class SagaFilter(SimpleListFilter):
    """One saga of those that the project knows, or the one that the address names."""

    title = "saga"
    parameter_name = "saga"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Their names."""
        names = [saga.name for saga in known_sagas()]
        asked = request.GET.get("saga")
        return [(name, name) for name in (names if asked is None or asked in names else [*names, asked])]

    def has_output(self) -> bool:
        """Also where there is only one."""
        return True

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Its runs."""
        return _narrowed(request, queryset, "saga", "saga")


class StatusFilter(SimpleListFilter):
    """One status."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """All of them."""
        return [(each.value, each.value.replace("_", " ")) for each in RunStatus]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Runs in it."""
        return _narrowed(request, queryset, "status", "status")


class AttentionFilter(SimpleListFilter):
    """Whether a person has to act."""

    title = "needs a person"
    parameter_name = "attention"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Only those that do."""
        return [("1", "yes")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """What is on the desk."""
        return _narrowed(request, queryset, "attention", "attention_at__isnull", False)


class TimeFilter(SimpleListFilter):
    """How long ago runs were started."""

    title = "started"
    parameter_name = "within"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """From an hour to a month."""
        told = ("in the last hour", "in the last 24 hours", "in the last 7 days", "in the last 30 days")
        return list(zip(_SPANS, told, strict=True))

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Runs that were created since then."""
        return _narrowed(request, queryset, "within", "created_at__gte")


class _Typed(ListFilter):
    """A filter whose values a person types.

    Args:
        names: the parameters in the address, with what stands before their inputs, and the inputs' type.
    """

    template = "admin/celery_saga/typed_filter.html"
    names: tuple[tuple[str, str, str], ...] = ()

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for name, _, _ in self.names:
            value = params.pop(name, None)
            if value is not None:
                self.used_parameters[name] = value[-1] if isinstance(value, list) else value

    def expected_parameters(self) -> list[str]:
        """Its parameters in the address."""
        return [name for name, _, _ in self.names]

    def has_output(self) -> bool:
        """Always."""
        return True

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """One form, which keeps what else is asked."""
        mine = self.expected_parameters()
        yield {
            "inputs": [(name, told, kind, self.used_parameters.get(name, "")) for name, told, kind in self.names],
            "others": [(k, v) for k, v in changelist.get_filters_in_address() if k not in mine],
            "clear": changelist.get_query_string(remove=mine),
            "is_used": bool(self.used_parameters),
        }


class VersionFilter(_Typed):
    """One version."""

    title = "version"
    names = (("version", "Version", "number"),)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Runs of it."""
        return _narrowed(request, queryset, "version", "version")


class TagFilter(_Typed):
    """One tag."""

    title = "tag"
    names = (("tag", "Tag", "text"),)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Runs that were started with it."""
        return _narrowed(request, queryset, "tag", "tags__tag")


class BetweenFilter(_Typed):
    """Two instants."""

    title = "started between"
    names = (("since", "From", "datetime-local"), ("until", "To", "datetime-local"))

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Runs that were created in between."""
        since = _narrowed(request, queryset, "since", "created_at__gte")
        return _narrowed(request, since, "until", "created_at__lt")


FILTERS = (AttentionFilter, StatusFilter, SagaFilter, VersionFilter, TagFilter, TimeFilter, BetweenFilter)


def is_filtered(request: HttpRequest) -> bool:
    """Whether the address narrows the runs down by filters alone, so that something can be done to all of them."""
    return any(request.GET.get(name) for name in _READ) and not request.GET.get(SEARCH_VAR)


def library_filters(request: HttpRequest) -> dict[str, Any]:
    """The same, as `app.saga.runs` and `app.saga.bulk` take them; only what is asked for.

    Raises:
        InvalidPayload: one of them cannot be read, or what is shown was searched for: it would be done to other runs.
    """
    if text := request.GET.get(SEARCH_VAR):
        raise _unreadable(SEARCH_VAR, text, "left out: pick the runs that the search has found")
    found = {name: read(text) for name, read in _READ.items() if (text := request.GET.get(name))}
    within = found.pop("within", None)
    if within is not None:
        found["since"] = max(within, found.get("since", within))
    return found
