"""The span of a run: emitted when it ends, with the time at which it began; whoever emits it, it is the same one."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from celery_saga.core.records import Action, HistoryRecord, RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.core.trace_context import LINK, PARENT, Place, from_text, headers_of, span_id_of, trace_id_of
from celery_saga.telemetry import names
from celery_saga.telemetry.places import Places, context_of, span_context

__all__ = ["emit"]

_FAILED = frozenset({RunStatus.FAILED, RunStatus.COMPENSATION_FAILED})
_MOST_EVENTS = 100


def emit(places: Places, run: RunRecord, status: str, ended_at: datetime, history: Iterable[HistoryRecord]) -> None:
    """Emit the span of the present generation of a run.

    Args:
        run: as it is at its end, or before it begins again.
        status: how it ended.
        history: of the run, in order; what is in it of signals, timers and operators becomes events.
    """
    place, headers = places.of(run), headers_of(run)
    tracer = _forced(trace.get_tracer(names.SCOPE), place)
    if tracer is None:
        return
    parent = from_text(headers.get(PARENT)) or places.parent_of(run)
    rows = list(history)
    began_at = max((row.at for row in rows if _is_before(run, row)), default=run.created_at)
    span = tracer.start_span(
        f"saga {run.saga}",
        context=context.Context() if parent is None else context_of(parent, run),
        kind=SpanKind.INTERNAL,
        attributes=_attributes(run, status),
        links=[Link(span_context(each)) for each in _links(run, headers, place)],
        start_time=_ns(began_at),
    )
    for row in [row for row in rows if row.generation == run.generation and _is_event(row)][:_MOST_EVENTS]:
        span.add_event(f"saga.{row.kind}.{row.action.value}", _told(row), _ns(row.at))
    if run.status in _FAILED and run.error is not None:
        span.set_status(Status(StatusCode.ERROR, f"{run.error.type_name.rpartition('.')[2]}: {run.error.message}"))
    span.end(_ns(ended_at))


def _is_before(run: RunRecord, row: HistoryRecord) -> bool:
    return row.generation < run.generation or (row.generation == run.generation and row.action is Action.CONTINUE)


def _is_event(row: HistoryRecord) -> bool:
    return row.kind in ("signal", "timer", "run")


def _told(row: HistoryRecord) -> dict[str, str]:
    """Names, never what a signal carries or a person has written."""
    told = {names.STEP: row.step, names.SIGNAL: (row.detail or "").partition(" ")[0] if row.kind == "signal" else None}
    return {name: value for name, value in told.items() if value}


def _links(run: RunRecord, headers: dict[str, Any], place: Place) -> list[Place]:
    """What it only comes from: the run that went on as this generation, or that has let it go its own way."""
    found = [from_text(headers.get(LINK))]
    if run.generation > 1 and found == [None]:
        former = run.generation - 1
        trace_id = place.trace_id if PARENT in headers or run.parent_id else trace_id_of(run.id, former)
        found = [Place(trace_id, span_id_of(run.id, former), place.sampled)]
    return [each for each in found if each is not None]


def _attributes(run: RunRecord, status: str) -> dict[str, str | int]:
    told: dict[str, str | int | None] = {
        names.SAGA: run.saga,
        names.VERSION: run.version,
        names.RUN: run.id,
        names.RUN_KEY: run.key,
        names.GENERATION: run.generation,
        names.RUN_STATUS: status,
        names.PARENT_RUN: run.parent_id,
        names.FAILED_STEP: run.error_step if run.status in _FAILED else None,
        names.ERROR: run.error.type_name if run.error is not None and run.status in _FAILED else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _ns(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000


def _forced(tracer: Any, place: Place) -> Any:
    """A tracer whose next span gets these ids; None: that of another SDK than OpenTelemetry's own.

    The API has no way to say them. What is replaced is an attribute of the SDK's tracers that their constructor takes.
    """
    if not hasattr(tracer, "id_generator"):
        return None
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415  # an SDK is optional

    class Given(RandomIdGenerator):
        def generate_span_id(self) -> int:
            return place.span_id

        def generate_trace_id(self) -> int:
            return place.trace_id

    mine = copy.copy(tracer)
    mine.id_generator = Given()
    return mine
