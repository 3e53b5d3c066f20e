"""What a step's task can ask about the attempt that it runs in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_saga.client import progress
from celery_saga.errors import SagaError

__all__ = ["CurrentStep", "StepContext", "context", "current_step", "enter"]


def _never() -> bool:
    return False


def _nothing() -> BaseException | None:
    return None


def _no_connection() -> Any:
    raise SagaError(
        "current_step.connection is there only in a transactional step and its undo: order it with "
        "run.step(..., transactional=True). Elsewhere use a connection of your own."
    )


def _to_nobody(_text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class StepContext:
    """One attempt of a step, as its task sees it.

    Args:
        run_id: id of the run.
        run_key: the run's key; None without one.
        step: the step's key; that of an undo ends in `!undo`.
        attempt: claims so far with this one, from 1.
        idempotency_key: the same for every attempt of this step.
        deadline: when the attempt is over time, aware UTC; None without a limit.
        is_cancelled: asks whether the forward part of the run has ended meanwhile.
        cause_of: of an undo: gives the error that ended the forward part; None after a cancel.
        report: takes progress as text; returns at once.
        connection_of: of a transactional step: gives the connection whose transaction its checkpoint shares.
        saga: name of the run's saga; empty where nobody has said.
    """

    run_id: str
    run_key: str | None
    step: str
    attempt: int
    idempotency_key: str
    deadline: datetime | None = None
    is_cancelled: Callable[[], bool] = _never
    cause_of: Callable[[], BaseException | None] = _nothing
    report: Callable[[str], None] = _to_nobody
    connection_of: Callable[[], Any] = _no_connection
    saga: str = ""


_current: ContextVar[StepContext | None] = ContextVar("celery_saga_step", default=None)


def context() -> StepContext | None:
    """The attempt that the caller runs in; None outside one."""
    return _current.get()


@contextmanager
def enter(context: StepContext | None) -> Iterator[None]:
    """While it is entered, `current_step` shows this attempt; None: it shows nothing."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


class CurrentStep:
    """The attempt that the caller runs in; false outside one, where reading an attribute raises SagaError."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return _current.get() is not None

    def __repr__(self) -> str:
        context = _current.get()
        if context is None:
            return "<current_step: none>"
        return f"<current_step: {context.step!r} of run {context.run_id!r}, attempt {context.attempt}>"

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return _required("run_id").run_id

    @property
    def run_key(self) -> str | None:
        """The run's key; None when it was started without one."""
        return _required("run_key").run_key

    @property
    def step(self) -> str:
        """The step's key within the run; that of an undo ends in `!undo`."""
        return _required("step").step

    @property
    def attempt(self) -> int:
        """Claims of this step so far with this one, from 1."""
        return _required("attempt").attempt

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step, also after a crash; give it to the system that is called."""
        return _required("idempotency_key").idempotency_key

    @property
    def deadline(self) -> datetime | None:
        """When this attempt is over time, or its run is, whichever comes first; aware UTC. None without a limit."""
        return _required("deadline").deadline

    @property
    def cancelled(self) -> bool:
        """Nobody waits for the step any more: the run was cancelled or has failed, or the join around it is over.

        A long step may stop then. False for an undo.
        """
        return _required("cancelled").is_cancelled()

    @property
    def cause(self) -> BaseException | None:
        """In an undo: the error that ended the forward part, rebuilt where its class is declared; else None."""
        return _required("cause").cause_of()

    @property
    def connection(self) -> Any:
        """In a transactional step and its undo: the SQLAlchemy connection in whose transaction the checkpoint goes.

        What is written through it commits with the checkpoint when the task returns, and is rolled back when it raises.
        Its transaction is not the task's to end; `begin_nested()` gives a part that may fail.

        Raises:
            SagaError: the step was not ordered with transactional=True.
        """
        return _required("connection").connection_of()

    def progress(self, current: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the step is; returns at once and raises nothing. Shown by `RunHandle.progress` and `saga watch`.

        Written at most once a second, in the background, and the last report always with the step's end. A report that
        cannot be shown, as one of no number, is logged and left out.

        Args:
            current: how much is done, in whatever unit.
            total: how much there is to do, in the same unit; None: not known.
            message: a line of text, of which 200 characters are kept; None: the number says it all.
        """
        context = _required("progress")
        text = progress.text_of(current, total, message, step=context.step)
        if text is not None:
            context.report(text)


def _required(attribute: str) -> StepContext:
    context = _current.get()
    if context is None:
        raise SagaError(
            f"current_step.{attribute} was read outside a step; it is there while a worker runs a task as a step. "
            "Test `if current_step:` first in tasks that are also called on their own."
        )
    return context


current_step = CurrentStep()
"""The attempt that the caller runs in."""
