"""What the page of a run shows, in a bounded number of statements and of rows, whatever the run has done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from contrib_django.admin.timeline import Mark, Stroke
from contrib_django.models import History, Run, Signal, Step

__all__ = [
    "DRAWN",
    "PAGE",
    "READ",
    "Paged",
    "beginnings",
    "charted_steps",
    "children",
    "drawn_steps",
    "history",
    "live_steps",
    "marks",
    "page_number",
]
__all__ += ["record", "signals", "some_steps", "whole"]

PAGE = 50
"""Rows of a table on one page."""

CHARTED = 200
"""Steps of the longest run that has a diagram."""

DRAWN = 20_000
"""Steps that a timeline tells of; of a longer run the first ones."""

READ = 200_000
"""Characters of one payload that are read for a page; of a longer one its beginning is shown as it is stored."""

_MARKS = 500
_PAYLOADS = frozenset({"input_text", "result_text", "headers_text", "input_digest", "spec_text"})
_RECORD = tuple(field.name for field in fields(RunRecord) if field.name not in _PAYLOADS)
_CHARTED = (
    "run_id",
    "generation",
    "key",
    "kind",
    "status",
    "created_at",
    "scope",
    "task",
    "attempt",
    "undo_of",
    "join_key",
)
_LIVE = tuple(status.value for status in StepStatus if not status.is_end)
_ONLY: dict[str, dict[str, Any]] = {
    "failed": {"status__in": ("failed", "lost")},
    "live": {"status__in": _LIVE},
    "undo": {"kind": "undo"},
}
_ORDER = ("created_at", "place", "generation", "key")


@dataclass(frozen=True, slots=True)
class Paged:
    """A page of a table.

    Args:
        rows: of this page.
        number: of the page, from 1.
        has_more: a page follows.
    """

    rows: Sequence[Any]
    number: int
    has_more: bool

    @property
    def previous(self) -> int | None:
        """Number of the page before; None: this is the first."""
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        """Number of the page that follows."""
        return self.number + 1 if self.has_more else None


def record(run_id: str) -> RunRecord | None:
    """A run without its payloads; None: there is no such run."""
    if "\0" in run_id:  # PostgreSQL refuses to look for it
        return None
    values = Run.objects.filter(pk=run_id).values(*_RECORD).first()
    if values is None:
        return None
    outcome = values.pop("outcome")
    return RunRecord(
        **{**values, "status": RunStatus(values["status"])}, outcome=None if outcome is None else RunStatus(outcome)
    )


def drawn_steps(run_id: str) -> tuple[list[Stroke], bool]:
    """The steps that are drawn, as they were ordered, and whether there are more."""
    rows = Step.objects.filter(run_id=run_id).order_by(*_ORDER).values_list(*Stroke._fields)[: DRAWN + 1]
    found = list(map(Stroke._make, rows))
    return found[:DRAWN], len(found) > DRAWN


def marks(run_id: str) -> list[Mark]:
    """Attempts that did not succeed, the first of them; undos are told by the names of their steps."""
    rows = History.objects.filter(run_id=run_id, step__isnull=False, action__in=("fail", "lost", "timeout"))
    return [
        Mark(step, generation, at, action, attempt)
        for step, generation, at, action, attempt in rows.order_by("seq").values_list(
            "step", "generation", "at", "action", "attempt"
        )[:_MARKS]
    ]


def charted_steps(run_id: str, generation: int) -> list[StepRecord]:
    """The steps of a diagram, without their payloads; none where they are more than CHARTED."""
    rows = Step.objects.filter(run_id=run_id, generation=generation).order_by(*_ORDER).values(*_CHARTED)[: CHARTED + 1]
    found = [StepRecord(**{**row, "kind": StepKind(row["kind"]), "status": StepStatus(row["status"])}) for row in rows]
    return found if len(found) <= CHARTED else []


def live_steps(run_id: str, generation: int) -> list[Any]:
    """Steps that are at work or wait, the first ten."""
    rows = Step.objects.filter(run_id=run_id, generation=generation, status__in=_LIVE).order_by(*_ORDER)
    return list(rows.values("key", "kind", "task", "status", "due_at", "created_at", "started_at", "attempt")[:10])


def some_steps(run_id: str, number: int, *, only: str = "", payloads: bool = False) -> Paged:
    """A page of steps, with their errors; arguments and results only where they are asked for.

    Args:
        only: `failed`, `live` or `undo`: only those; else all.
    """
    wanted = _ONLY.get(only, {})
    rows = Step.objects.filter(run_id=run_id, **wanted).order_by(*_ORDER)
    rows = rows.defer("spec_text", "args_digest", "args_text", "result_text")
    return _page(beginnings(rows, "args", "result") if payloads else rows, number)


def history(run_id: str, number: int) -> Paged:
    """A page of the history, the newest first."""
    return _page(History.objects.filter(run_id=run_id).order_by("-seq"), number)


def signals(run_id: str, *, payloads: bool) -> list[Any]:
    """The newest signals of a run, what was asked of the engine left out."""
    rows = Signal.objects.filter(run_id=run_id).exclude(name__startswith="!").order_by("-id")
    rows = rows.defer("value_text")
    return list((beginnings(rows, "value") if payloads else rows)[:PAGE])


def beginnings(rows: QuerySet[Any], *names: str) -> QuerySet[Any]:
    """The rows with the beginnings of payloads as `args_begin` and so on: a page has many, each up to its limit."""
    return rows.annotate(**{f"{name}_begin": Left(f"{name}_text", READ + 1) for name in names})


def children(run_id: str) -> list[Any]:
    """Runs that are steps of this one, the first of them."""
    rows = Run.objects.filter(parent_id=run_id).order_by("created_at", "id")
    return list(rows.values("id", "saga", "key", "status", "parent_key")[:PAGE])


def _page(rows: QuerySet[Any], number: int) -> Paged:
    first = (number - 1) * PAGE
    found = list(rows[first : first + PAGE + 1])
    return Paged(found[:PAGE], number, len(found) > PAGE)


def page_number(text: str | None) -> int:
    """The number of a page, as an address names it; the first where it names none."""
    return whole(text, 10_000) or 1


def whole(text: str | None, most: int) -> int | None:
    """The number from 1 to `most` that an address names; None: it names none."""
    if text is None or not text.isdecimal() or len(text) > len(str(most)):  # Python reads no number of 5000 digits
        return None
    return int(text) if 1 <= int(text) <= most else None
