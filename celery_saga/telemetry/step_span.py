"""The span of an attempt: that of the Celery instrumentation with our attributes, or one of our own without it."""

from __future__ import annotations

from contextlib import ExitStack

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.telemetry import names
from celery_saga.telemetry.harmless import harmless
from celery_saga.telemetry.places import Places, context_of

__all__ = ["StepSpan"]


class StepSpan:
    """A context manager around the user's code. Entered after the hooks of Celery's `task_prerun`."""

    def __init__(self, places: Places, run: RunRecord, step: StepRecord) -> None:
        self._places, self._run, self._step = places, run, step
        self._stack = ExitStack()
        self._span: Span = trace.INVALID_SPAN
        self._is_own = False

    def __enter__(self) -> StepSpan:
        with harmless():
            self._begin()
        return self

    def _begin(self) -> None:
        place = self._places.of(self._run)
        there = trace.get_current_span()
        # The envelope has made the run's span the current one: any other was begun by who instruments Celery.
        if there.get_span_context().span_id in (place.span_id, 0):
            self._is_own = True
            tracer = trace.get_tracer(names.SCOPE)
            kind, where = SpanKind.CONSUMER, context_of(place, self._run)
            there = tracer.start_span(f"run/{self._step.task}", context=where, kind=kind)
            self._stack.enter_context(trace.use_span(there, end_on_exit=True, record_exception=False))
        self._span = there
        if there.is_recording():
            there.set_attributes(_attributes(self._run, self._step))
            if self._step.stalls:
                there.add_event("saga.attempts.lost", {names.STALLS: self._step.stalls})

    def __exit__(self, *_: object) -> None:
        with harmless():
            self._stack.close()

    def ended(self, outcome: str, error: BaseException | None, *, is_declared: bool, is_final: bool) -> None:
        """How the attempt ended.

        A declared error for good is an outcome that the saga knows: it is recorded, and the span's status is OK.
        """
        with harmless():
            if self._span.is_recording():
                self._tell(outcome, error, is_declared=is_declared, is_final=is_final)

    def _tell(self, outcome: str, error: BaseException | None, *, is_declared: bool, is_final: bool) -> None:
        span = self._span
        span.set_attribute(names.OUTCOME, outcome)
        if error is None:
            return
        span.set_attribute(names.ERROR, type_name(error))
        if self._is_own or not is_final:  # else the instrumentation does it
            span.record_exception(error)
        if is_declared:
            span.set_status(StatusCode.OK)  # final: nobody can call it an error afterwards
        else:
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))


def type_name(error: BaseException) -> str:
    """Module and qualified name of its class; of a builtin its name alone."""
    cls = type(error)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _attributes(run: RunRecord, step: StepRecord) -> dict[str, str | int | bool]:
    told: dict[str, str | int | bool | None] = {
        names.SAGA: run.saga,
        names.VERSION: run.version,
        names.RUN: run.id,
        names.RUN_KEY: run.key,
        names.GENERATION: run.generation,
        names.STEP: step.key,
        names.TASK: step.task,
        names.KIND: step.kind.value,
        names.ATTEMPT: step.attempt,
        names.UNDO_OF: step.undo_of if step.kind is StepKind.UNDO else None,
    }
    return {name: value for name, value in told.items() if value is not None}
