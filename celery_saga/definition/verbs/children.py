"""Verbs that start other runs: children, whose end the run waits for, and runs of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from celery_saga.client import binding
from celery_saga.client.handle import RunHandle
from celery_saga.core import codec
from celery_saga.core.children import child_id
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.core.replay import value_of
from celery_saga.definition.kin import classes_of, order_of, require_saga
from celery_saga.definition.names import key_base
from celery_saga.definition.verbs.base import Pass

if TYPE_CHECKING:
    from celery_saga.definition.saga import Saga

__all__ = ["Children"]

P = ParamSpec("P")
R = TypeVar("R")


class Children(Pass):
    """Verbs that start other runs."""

    def child(self, saga: Saga[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Start a run of another saga as a step of this one, and return its result.

        Its id follows from this run, the step's key and the generation. A cancel or a failure of this run cancels the
        child first; one that has completed is undone as a whole, in its place among the steps. The step's key is the
        saga's name.

        Args:
            saga: the saga, or `saga.options(...)`. With `detached=True` the run is independent: it is started, and a
                RunHandle is returned at once; it may have a key of its own.
            args, kwargs: of its body.
        Raises:
            The error that ended the child, where this saga or the child's declares its class, else StepFailed;
                RunCancelled: it was cancelled, not by this run; DeadlineExceeded: its deadline passed.
            InvalidPayload, PayloadTooLarge, DefinitionError: nothing was started.
        """
        self._check_outside_record("child")
        where = "run.child()"
        require_saga(saga, where)
        if saga.start_options.detached:
            return self._detached(saga, args, kwargs, where)  # type: ignore[return-value]
        order, digest = order_of(saga, args, kwargs, where, self._limit_bytes)
        settled = self._replay.ask(
            StepKind.CHILD, key_base(saga.name), task=saga.name, digest=digest, make=_giving(order)
        )
        record = self._done(settled, lambda: classes_of(saga))
        return self._read(record, saga.payload.result_type)  # type: ignore[no-any-return]

    def _detached(self, saga: Saga[P, R], args: Any, kwargs: Any, where: str) -> RunHandle[R]:
        made, digest = order_of(saga, args, kwargs, where, self._limit_bytes)
        name = key_base(saga.name)
        run_id = made.task_id or child_id(self.id, self.generation, self._replay.peek_key(name))
        order = replace(made, kind=StepKind.RECORD, result_text=codec.encode(run_id), task_id=run_id)
        settled = self._replay.ask(StepKind.RECORD, name, task=saga.name, digest=digest, make=_giving(order))
        bound = binding.current(saga)
        drive = bound.after_start if bound.eager else None
        return RunHandle(bound.engine, codec.decode(value_of(settled)), saga, made.task_id is None, drive=drive)


def _giving(order: Order) -> Callable[[], Order]:
    return lambda: order
