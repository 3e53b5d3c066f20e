"""Executes inline steps through Celery's own tracer, each with a request of its own, in the delivery of their run."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Any

from billiard.exceptions import SoftTimeLimitExceeded
from celery.app.task import Context
from celery.app.trace import build_tracer

from celery_saga.client import purity
from celery_saga.core.attempts import Outcome
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Claimed
from celery_saga.core.trace_context import sent_headers
from celery_saga.errors import SagaError
from celery_saga.runtime.arguments import arguments_for
from celery_saga.runtime.attempt import Attempt, current
from celery_saga.runtime.daemon import SOFT_LIMIT
from celery_saga.runtime.envelope import outcome_unentered
from celery_saga.runtime.inline_choice import InlineChoice
from celery_saga.runtime.inline_events import InlineEvents
from celery_saga.runtime.inline_stop import is_stopping
from celery_saga.runtime.inline_strategy import WORKER
from celery_saga.runtime.literals import literal
from celery_saga.runtime.messages import task_id_of
from celery_saga.runtime.names import HEADER
from celery_saga.runtime.sender import PooledSender
from celery_saga.runtime.services import Services, host, owner

__all__ = ["InlineDelivery"]

_OF_CELERY = frozenset({*vars(Context), "lang", "task", "argsrepr", "kwargsrepr", "compression"})
"""Names in a request that are not a message's own headers."""


class InlineDelivery:
    """The engine's `Inline` of one delivery of `celery_saga.coordinate`. A context manager.

    Args:
        request: the delivery's own; its steps get its worker's name and where it came from.
    """

    def __init__(self, services: Services, request: Any) -> None:
        self.owner = owner()
        self._services = services
        self._request = request
        told = request.get(WORKER) or {}
        limits_s = [*told.get("limits_s", ()), *(each for each in request.timelimit or () if each)]
        self._half_limit_s = min(limits_s) / 2 if limits_s else None
        self._events: InlineEvents | None = None
        if told.get("events"):
            pid = int(self.owner.rpartition(":")[2])
            options: dict[str, Any] = {"timeout_s": services.settings.publish_timeout}
            options |= {"pid": pid, "expose": services.settings.expose_args}
            self._events = InlineEvents(services.app, PooledSender(services.app), request.hostname, **options)
        self._mask: Any = None  # the thread's, before the soft time limit was held back

    def __enter__(self) -> InlineDelivery:
        return self

    def __exit__(self, *_: object) -> None:
        if self._events is not None:
            self._events.flush()
        self._let_soft_limit_in()

    def is_over(self, elapsed_s: float) -> bool:
        """Half of a time limit is over, or the worker stops."""
        return is_stopping() or (self._half_limit_s is not None and elapsed_s >= self._half_limit_s)

    def execute(self, claimed: Claimed) -> Outcome:
        """Trace the step's task as if it had come as a message; its end is kept, not checked in."""
        task: Any = self._services.app.tasks[claimed.step.task]
        attempt = Attempt(task, claimed, self._services)
        try:
            attempt.args, attempt.kwargs = arguments_for(task, claimed.step.args_text)
        except SagaError as error:
            attempt.unreadable = error
        request = self._request_of(claimed)
        if self._events is not None and task.send_events:
            self._events.begun(request)
        answer = self._traced(attempt, request)
        choice = self._services.takes_inline
        if isinstance(choice, InlineChoice):
            choice.took(claimed.step.task, attempt.elapsed_s)
        if self._events is not None and task.send_events:
            self._events.ended(request, answer)
        if attempt.outcome is None:
            return outcome_unentered(attempt, answer.info)
        return attempt.outcome

    def _traced(self, attempt: Attempt, request: dict[str, Any]) -> Any:
        tracer = _tracer_of(attempt.task)

        def keep(outcome: Outcome) -> None:
            self._keep_soft_limit_out()  # from here on it would be taken for the failure of something else
            attempt.outcome = outcome

        attempt.keep = keep
        token = current.set(attempt)
        try:
            with purity.outside(), self._services.telemetry.within(attempt.claimed.snapshot.run):
                self._let_soft_limit_in()
                return tracer(request["id"], list(attempt.args), attempt.kwargs, request)
        finally:
            self._keep_soft_limit_out()
            current.reset(token)
            attempt.keep = None  # else it would hold itself, and the run with all its steps, until a collection

    def _request_of(self, claimed: Claimed) -> dict[str, Any]:
        """What a message of this step would have brought."""
        step, run = claimed.step, claimed.snapshot.run
        own = StepSpec.from_text(step.spec_text).options.get("headers") or {}
        ref = {"run": step.run_id, "generation": step.generation, "step": step.key, "task": step.task}
        carried = {**sent_headers(run), **own, HEADER: ref}
        task_id = task_id_of(step)
        delivery: Any = self._request
        return {
            **carried,
            # Else Celery looks for them among all that is here.
            "headers": {name: value for name, value in carried.items() if name not in _OF_CELERY},
            "lang": "py",
            "task": step.task,
            "id": task_id,
            "shadow": None,
            "eta": None,
            "expires": None,
            "group": None,
            "group_index": None,
            "retries": step.failures,
            "timelimit": [None, None],
            "root_id": run.id,
            "parent_id": run.id,
            "argsrepr": "()",
            "kwargsrepr": literal({"step": step.key, "saga_run": step.run_id}),
            "origin": delivery.origin,
            "ignore_result": True,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
            "properties": {},
            "reply_to": None,
            "correlation_id": task_id,
            "hostname": delivery.hostname,
            "delivery_info": {**(delivery.delivery_info or {}), "redelivered": False},
        }

    # -- the delivery's soft time limit --------------------------------------------------------------------------
    def _keep_soft_limit_out(self) -> None:
        """From the first step on it may only interrupt steps: the body between them is not to be blamed for it."""
        if self._mask is None and SOFT_LIMIT is not None and hasattr(signal, "pthread_sigmask"):
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {SOFT_LIMIT})

    def _let_soft_limit_in(self) -> None:
        mask, self._mask = self._mask, None
        if mask is not None:
            with suppress(SoftTimeLimitExceeded):  # one that came meanwhile: the next step has its own time
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _tracer_of(task: Any) -> Any:
    """Celery's own tracer of the task, without the half of the envelope that claims."""
    if task.__trace__ is None:
        task.__trace__ = build_tracer(task.name, task, task.app.loader, host(), app=task.app)
    return task.celery_tracer
