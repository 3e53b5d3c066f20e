"""The span of a signal that is sent: in the sender's trace, linked to the run's own span."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind

from celery_saga.core.records import RunRecord
from celery_saga.errors import SagaError
from celery_saga.telemetry import names
from celery_saga.telemetry.places import Places, span_context

__all__ = ["signal_span"]


@contextmanager
def signal_span(places: Places, find: Callable[[], RunRecord | None], name: str) -> Iterator[None]:
    """While it is entered the signal is sent; an error that leaves it is recorded.

    Args:
        find: the run that it is for; None, or a SagaError: it is not there yet, or cannot be read.
    """
    try:
        run = find()
    except SagaError:
        run = None
    links = [] if run is None else [Link(span_context(places.of(run)))]
    told = {names.SIGNAL: name} | ({} if run is None else {names.RUN: run.id, names.SAGA: run.saga})
    tracer = trace.get_tracer(names.SCOPE)
    with tracer.start_as_current_span(f"signal {name}", kind=SpanKind.PRODUCER, links=links, attributes=told):
        yield
