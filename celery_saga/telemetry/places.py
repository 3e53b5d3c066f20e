"""Where a run is in traces, as OpenTelemetry has it; also of a run that was started where nobody traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, TraceState

from celery_saga.core.records import RunRecord
from celery_saga.core.trace_context import STATE, Place, headers_of, place_of, span_id_of, trace_id_of
from celery_saga.errors import SagaError

__all__ = ["FindRun", "Places", "context_of", "span_context"]

FindRun = Callable[[str], RunRecord]
"""The stored run of an id; raises a SagaError where it is gone or out of reach."""

_MOST_KEPT = 1000


class Places:
    """Finds the own span of a run. Shared by the threads of a process.

    Args:
        find: loads a parent, for the children of runs that nobody traced when they were started.
    """

    def __init__(self, find: FindRun) -> None:
        self._find = find
        self._known: dict[tuple[str, int], Place] = {}

    def of(self, run: RunRecord) -> Place:
        """The run's own span; of one that was started in no trace, in a trace whose id follows from the run's."""
        found = place_of(run, headers_of(run)) or self._known.get((run.id, run.generation))
        if found is None:
            found = self._derived(run)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[run.id, run.generation] = found
        return found

    def parent_of(self, run: RunRecord) -> Place | None:
        """The own span of the run that has started this one in a trace of its own making; None: it has no parent."""
        if run.parent_id is None:
            return None
        try:
            return self.of(self._find(run.parent_id))
        except SagaError:
            return None

    def _derived(self, run: RunRecord) -> Place:
        parent = self.parent_of(run)
        if parent is not None:
            return Place(parent.trace_id, span_id_of(run.id, run.generation), parent.sampled)
        trace_id = trace_id_of(run.id, run.generation)
        return Place(trace_id, span_id_of(run.id, run.generation), _is_sampled(trace_id, f"saga {run.saga}"))


def _is_sampled(trace_id: int, name: str) -> bool:
    """As the provider's sampler decides of the first span of this trace: the same wherever it goes by the id."""
    sampler: Any = getattr(trace.get_tracer_provider(), "sampler", None)
    if sampler is None:
        return True
    return bool(sampler.should_sample(context.Context(), trace_id, name, SpanKind.INTERNAL).decision.is_sampled())


def span_context(place: Place, run: RunRecord | None = None) -> SpanContext:
    """The same for the API; with what vendors have added to the trace that the run was started in."""
    state = None if run is None else headers_of(run).get(STATE)
    flags = TraceFlags(TraceFlags.SAMPLED if place.sampled else TraceFlags.DEFAULT)
    return SpanContext(
        place.trace_id, place.span_id, True, flags, TraceState.from_header([state]) if isinstance(state, str) else None
    )


def context_of(place: Place, run: RunRecord | None = None) -> context.Context:
    """The present context with this span as the current one."""
    return trace.set_span_in_context(NonRecordingSpan(span_context(place, run)))
