"""What the runtime tells OpenTelemetry; each call does nothing where the process has not set it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from celery_saga.core.ports import Transition
from celery_saga.core.records import Action, HistoryRecord, RunRecord, StepRecord
from celery_saga.telemetry.harmless import harmless
from celery_saga.telemetry.present import is_counting, is_tracing

if TYPE_CHECKING:
    from celery_saga.telemetry.instruments import Instruments
    from celery_saga.telemetry.places import Places
    from celery_saga.telemetry.step_span import StepSpan

__all__ = ["Telemetry"]


class Telemetry:
    """One process's. Whatever goes wrong here is told in the log, and touches no run.

    Args:
        find_run: the stored run of an id.
        history: the history rows of a run that are worth an event, and those with which a generation begins.
    """

    def __init__(
        self,
        find_run: Callable[[str], RunRecord],
        history: Callable[[str], list[HistoryRecord]],
    ) -> None:
        self._find_run, self._history = find_run, history
        self._places: Places | None = None
        self._instruments: Instruments | None = None

    # -- traces ------------------------------------------------------------------------------------------------
    def within(self, run: RunRecord) -> AbstractContextManager[object]:
        """While entered, what begins belongs to the run's own span: messages that are sent, a step that is executed."""
        return self._within(run) if is_tracing() else nullcontext()

    @contextmanager
    def _within(self, run: RunRecord) -> Iterator[None]:
        from opentelemetry import context  # noqa: PLC0415  # optional

        from celery_saga.telemetry.places import context_of  # noqa: PLC0415  # imports it

        token: Any = None
        with harmless():
            token = context.attach(context_of(self._the_places().of(run), run))
        try:
            yield
        finally:
            if token is not None:
                context.detach(token)

    def step(self, run: RunRecord, step: StepRecord) -> StepSpan | None:
        """The span of an attempt, to be entered around the user's code; None: nobody traces."""
        if not is_tracing():
            return None
        from celery_saga.telemetry.step_span import StepSpan  # noqa: PLC0415  # imports what is optional

        return StepSpan(self._the_places(), run, step)

    @contextmanager
    def signal(self, find: Callable[[], RunRecord | None], name: str) -> Iterator[None]:
        """Around the sending of a signal: a span in the sender's trace, linked to the run's own."""
        if not is_tracing():
            yield
            return
        from celery_saga.telemetry.signal_span import signal_span  # noqa: PLC0415  # imports what is optional

        span = ExitStack()
        with harmless():
            span.enter_context(signal_span(self._the_places(), find, name))
        try:
            yield
        except BaseException as error:
            with harmless():
                span.__exit__(type(error), error, error.__traceback__)
            raise
        with harmless():
            span.close()

    # -- both --------------------------------------------------------------------------------------------------
    def watch(self, done: Transition) -> None:
        """A transition was committed here."""
        with harmless():
            if is_counting():
                self._the_instruments().changed(done)
        with harmless():
            if is_tracing():
                self._trace(done)

    def executed(self, run: RunRecord, step: StepRecord, outcome: str, duration_s: float) -> None:
        """An attempt has ended in this process, after so many seconds."""
        with harmless():
            if is_counting():
                self._the_instruments().executed(run.saga, step.task, step.kind.value, outcome, duration_s)

    def _trace(self, done: Transition) -> None:
        old, new = done.old, done.new
        if new.run.generation != old.run.generation:
            if any(row.action is Action.CONTINUE for row in new.history[len(old.history) :]):
                self._emit(old.run, "continued", done)
        elif new.run.status.is_end and new.run.status is not old.run.status:
            self._emit(new.run, new.run.status.value, done)

    def _emit(self, run: RunRecord, status: str, done: Transition) -> None:
        from celery_saga.telemetry.run_span import emit  # noqa: PLC0415  # imports what is optional

        places = self._the_places()
        if places.of(run).sampled:
            emit(places, run, status, done.now, self._history(run.id))

    def _the_places(self) -> Places:
        if self._places is None:
            from celery_saga.telemetry.places import Places  # noqa: PLC0415  # imports what is optional

            self._places = Places(self._find_run)
        return self._places

    def _the_instruments(self) -> Any:
        if self._instruments is None:
            from celery_saga.telemetry.instruments import Instruments  # noqa: PLC0415  # imports what is optional

            self._instruments = Instruments()
        return self._instruments
