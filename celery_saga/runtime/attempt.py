"""One attempt of a step in the process that executes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery.exceptions import Retry

from celery_saga.client.current import StepContext
from celery_saga.core.attempts import Outcome
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Claimed
from celery_saga.core.records import StepKind

if TYPE_CHECKING:
    from celery_saga.runtime.services import Services
    from celery_saga.telemetry.step_span import StepSpan

__all__ = ["GRACE_S", "Attempt", "current", "lease_of"]

GRACE_S = 1.0
"""How long after its time-out an attempt's lease ends: where the pool can kill it, that happens before."""


def lease_of(timeout_s: float | None, elapsed_s: float = 0.0) -> float | None:
    """How long the lease of an attempt may still be, in seconds; None: as long as it is renewed."""
    return None if timeout_s is None else timeout_s + GRACE_S - elapsed_s


class Attempt:
    """A claim and what becomes of it.

    Args:
        task: the task that runs.
        claimed: the step as claimed, with the run's records.
        services: of this process.
    """

    def __init__(self, task: Any, claimed: Claimed, services: Services) -> None:
        self.task = task
        self.claimed = claimed
        self.services = services
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.unreadable: BaseException | None = None  # the stored arguments cannot be given to the task
        self.in_body = False  # the user's code is running
        self.entered = False  # the inner half has begun: a nested call is the user's own
        self.retry: Retry | None = None  # what the task asked of Celery
        self.new_args: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # of self.retry(args=...)
        self.cancelled = False  # the run's forward part ended meanwhile
        self._has_reported = False
        self.keep: Callable[[Outcome], None] | None = None  # of an inline step: takes its end, instead of a check-in
        self.outcome: Outcome | None = None
        self.span: StepSpan | None = None  # where this process traces
        self.begun_s = time.monotonic()

    @property
    def timeout_s(self) -> float | None:
        """How long this attempt may take; None: for ever."""
        own = StepSpec.from_text(self.claimed.step.spec_text).timeout_s
        return own if own is not None else self.services.settings.step_timeout

    @property
    def is_forward(self) -> bool:
        """It belongs to what the end of the forward part ends: it is no undo, and not hung on signals."""
        return self.claimed.step.kind not in (StepKind.UNDO, StepKind.CHORD)

    @property
    def is_transactional(self) -> bool:
        """The task's writes and the checkpoint commit together."""
        return StepSpec.from_text(self.claimed.step.spec_text).transactional

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was claimed."""
        return time.monotonic() - self.begun_s

    def context(self, connection: object = None) -> StepContext:
        """What `current_step` shows; with the connection of a transactional step."""
        step, run = self.claimed.step, self.claimed.snapshot.run
        timeout_s = self.timeout_s
        ends = [] if timeout_s is None else [self.claimed.now + timedelta(seconds=timeout_s)]
        if step.kind is StepKind.STEP and run.deadline_at is not None:
            ends.append(run.deadline_at)
        shown = StepContext(
            run_id=run.id,
            run_key=run.key,
            step=step.key,
            attempt=step.attempt,
            idempotency_key=step.idempotency_key,
            deadline=min(ends, default=None),
            is_cancelled=lambda: self.cancelled,
            cause_of=self._cause,
            report=self._report,
            saga=run.saga,
        )
        return shown if connection is None else replace(shown, connection_of=lambda: connection)

    def _report(self, text: str) -> None:
        self._has_reported = True
        with suppress(RuntimeError):  # no thread could be started: the check-in brings it
            self.services.reports.put(self, text)

    def unwritten_progress(self) -> str | None:
        """The last report of the task where it is not stored yet, for its check-in; None: there is none."""
        return self.services.reports.take(self) if self._has_reported else None

    def _cause(self) -> BaseException | None:
        """What the run failed with; for a step undone because nobody knows its outcome, that step's own error."""
        s = self.claimed.snapshot
        saga = self.services.registry.get(s.run.saga, s.run.version)
        if self.claimed.step.kind is not StepKind.UNDO or saga is None:
            return None
        failed = s.steps.get(s.run.error_step or "")
        error = s.run.error
        if error is None and s.run.outcome is None:
            failed = s.steps.get(self.claimed.step.undo_of or "")
            error = None if failed is None else failed.error
        if error is None:
            return None
        key, attempts = (None, 0) if failed is None else (failed.key, failed.attempt)
        return saga.rebuild(error, step=key, attempts=attempts)

    def errors(self) -> tuple[type[BaseException], ...]:
        """The classes that the saga declares."""
        run = self.claimed.snapshot.run
        saga = self.services.registry.get(run.saga, run.version)
        return tuple(getattr(saga, "errors", ()))


current: ContextVar[Attempt | None] = ContextVar("celery_saga_attempt", default=None)
"""The attempt that this thread or greenlet executes."""
