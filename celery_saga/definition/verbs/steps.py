"""Verbs that execute tasks: a step, and an undo registered without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from celery_saga.core.orders import StepSpec, UndoSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.core.retry import Retry
from celery_saga.definition.annotations import result_type
from celery_saga.definition.asking import order, throws_of
from celery_saga.definition.calls import (
    args_of,
    call_of,
    digest_args,
    encode_args,
    options_of,
    require_signature,
    task_of,
)
from celery_saga.definition.names import is_explicit, key_base
from celery_saga.definition.step import (
    NOTHING,
    Dispatch,
    StepOptions,
    UndoUnknown,
    check_complete,
    options,
    spec_of,
    split,
)
from celery_saga.definition.verbs.base import Pass
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery.canvas import Signature

__all__ = ["Steps"]

R = TypeVar("R")


class Steps(Pass):
    """Verbs that execute tasks."""

    def step(
        self,
        sig: Signature[R],
        *,
        name: str | None = None,
        type: Any = None,
        undo: Callable[[R], object] | Signature[Any] | None = None,
        undo_retry: Retry | None = None,
        undo_unknown: UndoUnknown | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        dispatch: Dispatch | None = None,
        transactional: bool = False,
        pivot: bool = False,
        remote: bool = False,
    ) -> R:
        """Execute a task once and return its checkpointed result. Parameters as of `celery_saga.step`.

        Raises:
            StepFailed: it failed for good with an error that the saga does not declare; a declared error, one of the
                task's `throws`, of its `retry=` policy or a builtin is raised as itself.
            StepTimeout, StepLost: its last attempt took too long, or too many ended unseen; its effect was undone
                where it has an undo that can be called.
            DuplicateStepError, DefinitionError, InvalidPayload, PayloadTooLarge: nothing was ordered.
        """
        self._check_outside_record("step")
        require_signature(sig, "run.step()")
        given = options(
            "run.step()",
            name=name,
            type=type,
            undo=undo,
            undo_retry=undo_retry,
            undo_unknown=undo_unknown,
            retry=retry,
            timeout=timeout,
            dispatch=dispatch,
            transactional=transactional,
            pivot=pivot,
            remote=remote,
            limit_bytes=self._limit_bytes,
        )
        return self._execute(sig, given)  # type: ignore[no-any-return]

    def on_undo(self, sig: Signature[Any], name: str | None = None, *, retry: Retry | None = None) -> None:
        """Register an undo without a step: it is executed in its place of the order when the run is undone.

        Args:
            sig: `task.si(...)`; it gets no result.
            name: its key; else the task's last name part.
            retry: policy of the undo; else the saga's, else tries over 24 h.
        Raises:
            DuplicateStepError, DefinitionError, InvalidPayload, PayloadTooLarge: nothing was registered.
        """
        self._check_outside_record("on_undo")
        where = "run.on_undo()"
        plain, _ = split(require_signature(sig, where))
        given = options(where, name=name, undo_retry=retry)
        task, args = str(plain["task"]), args_of(plain)
        digest = digest_args(args, task)

        def make() -> Order:
            # There is no result that it could get, so `.s()` means the same as `.si()` here.
            call = call_of({**plain, "immutable": True}, where, self._limit_bytes)
            undo = UndoSpec(call, None if given.undo_retry is None else given.undo_retry.to_plain())
            return order(StepKind.ON_UNDO, args_text=call.args_text, spec=StepSpec(undo=undo))

        base = given.name or key_base(task)
        self._replay.ask(StepKind.ON_UNDO, base, explicit=name is not None, task=task, digest=digest, make=make)

    def _execute(self, sig: Mapping[str, Any], given: StepOptions) -> Any:
        plain, carried = split(sig)
        if carried.saga is not None:
            raise DefinitionError(
                f"run.step() executes a task, got the saga {carried.saga.name!r}; nothing was ordered. Write "
                f"run.child({carried.saga.name}, ...)."
            )
        given = given.over(carried)
        if given is not NOTHING:
            check_complete(given, "run.step()")
        if given.pivot:
            self._check_top("a step with pivot=True")
        message_options = options_of(plain, "run.step()")
        task, args = str(plain["task"]), args_of(plain)
        digest = digest_args(args, task)

        def make() -> Order:
            args_text = encode_args(args, task, self._limit_bytes)
            return order(StepKind.STEP, args_text=args_text, spec=spec_of(given, message_options))

        name, explicit = given.name or key_base(task), is_explicit(given.name)
        settled = self._replay.ask(StepKind.STEP, name, explicit=explicit, task=task, digest=digest, make=make)
        known_task = task_of(sig)
        record = self._done(settled, lambda: _expected(given, known_task))
        self._replay.pivoted = self._replay.pivoted or given.pivot
        return self._read(record, result_type(known_task) if given.type is None else given.type)


def _expected(given: StepOptions, task: object) -> tuple[type[BaseException], ...]:
    """Classes of errors that a step may be failed by, and that are raised as themselves."""
    return (*(() if given.retry is None else given.retry.classes), *throws_of(task))
