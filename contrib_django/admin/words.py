"""How statuses, instants and durations look in the admin: each by a sign and a word, and not by colour alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from contrib_django.admin.scale import span_text

__all__ = ["ago", "badge", "due", "instant", "lasted", "now_at", "tag"]

_SIGNS = {
    "queued": "…",
    "held": "…",
    "scheduled": "…",
    "running": "▶",
    "waiting": "◷",
    "compensating": "↩",
    "suspended": "‖",
    "completed": "✓",
    "done": "✓",
    "failed": "✕",
    "lost": "?",
    "cancelled": "⊘",
    "compensation_failed": "⚠",
}
_NOTHING = mark_safe('<span class="saga-none">–</span>')  # noqa: S308 - a constant


def badge(status: str) -> SafeString:
    """A status of a run or a step."""
    return format_html(
        '<span class="saga-badge saga-s-{}"><span aria-hidden="true">{}</span> {}</span>',
        status,
        _SIGNS.get(status, "•"),
        status.replace("_", " "),
    )


def now_at() -> datetime:
    """This instant, aware: runs have aware instants whatever `USE_TZ` says, which `timezone.now()` follows."""
    return datetime.now(UTC)


def instant(at: datetime | None) -> SafeString:
    """An instant in the current time zone, to the second; the microseconds stand in its title."""
    if at is None:
        return _NOTHING
    here = timezone.localtime(at)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(),
        here.isoformat(sep=" "),
        date_format(here, "Y-m-d H:i:s"),
    )


def ago(at: datetime | None, now: datetime) -> str:
    """How long ago, or in how long."""
    if at is None:
        return ""
    return f"{span_text(now - at)} ago" if at <= now else f"in {span_text(at - now)}"


def due(kind: str, status: str, at: datetime | None, now: datetime) -> str:
    """When a wait is over, or a step is tried next: `times out in 2 d`, `due 3 s ago`."""
    if at is None or status not in ("waiting", "scheduled"):
        return ""
    word = "due" if status == "scheduled" else "ends" if kind == "timer" else "times out"
    return f"{word if at > now else 'due'} {ago(at, now)}"


def tag(text: str) -> SafeString:
    """A tag of a run."""
    return format_html('<span class="saga-tag">{}</span>', text)


def lasted(begin: datetime | None, end: datetime | None, now: datetime) -> Any:
    """How long something took, or has taken until now."""
    return _NOTHING if begin is None else span_text(max(end or now, begin) - begin)
