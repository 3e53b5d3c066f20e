"""Turns recorded errors back into the exceptions that a body or a waiter sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from celery_saga.core import failure
from celery_saga.core.failure import Failure
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.errors import (
    DeadlineExceeded,
    SagaError,
    SignalFailed,
    SignalTimeout,
    StepFailed,
    StepLost,
    StepTimeout,
)

__all__ = ["of_run", "of_step"]

Classes = Iterable[type[BaseException]]

_ENGINES = (StepLost, StepTimeout, SignalTimeout, SignalFailed, StepFailed, DeadlineExceeded)


def _family(cls: type[SagaError]) -> Iterator[type[SagaError]]:
    if cls.__module__ == SagaError.__module__:
        yield cls
        for each in cls.__subclasses__():
            yield from _family(each)


_OURS = tuple(_family(SagaError))


def of_step(error: Failure, record: StepRecord, classes: Classes) -> BaseException:
    """The exception that the body sees for a failed step or wait.

    Args:
        classes: those that the saga, the step's policy and its task name; builtins and the engine's own come on top.
    Returns:
        An instance of the recorded class where it is known, else StepFailed, or SignalFailed for a wait.
    """
    known = (*classes, *_ENGINES)
    exc = failure.rebuild(error, known)
    if record.kind is StepKind.SIGNAL and not failure.matches(error, known):
        # Also for builtins: who answers a wait with an error means the wait, not a bug of somebody's code.
        exc = SignalFailed(_signal_failed(error, record), signal=record.task)
    elif exc is None:
        exc = StepFailed(record.key, error.type_name, error.message, record.attempt, type_names=error.type_names)
    if record.kind is StepKind.CHILD and isinstance(exc, StepFailed | StepLost | StepTimeout):
        exc.step = record.key  # the child's own step means nothing here
    if isinstance(exc, StepLost | StepTimeout):
        exc.step, exc.attempts = exc.step or record.key, exc.attempts or record.attempt
    elif isinstance(exc, SignalTimeout | SignalFailed):
        exc.signal = exc.signal or record.task
    return exc


def of_run(error: Failure, classes: Classes, *, step: str | None = None, attempts: int = 0) -> BaseException:
    """The exception that ended a run, for whoever waits for it.

    Args:
        step: key of the step whose error it was; None when no step failed.
        attempts: attempts of that step.
    """
    exc = failure.rebuild(error, (*classes, *_OURS))
    if exc is None and step is None:
        # Not a step's: an error of the body whose class this process does not know.
        return SagaError(f"{error.type_name}: {error.message}")
    if exc is None:
        return StepFailed(step or "", error.type_name, error.message, attempts, type_names=error.type_names)
    return exc


def _signal_failed(error: Failure, record: StepRecord) -> str:
    short = error.type_name.rpartition(".")[2]
    return (
        f"signal {record.task!r} was answered with {error.type_name}: {error.message} "
        f"(to catch it as {short}, add {short} to errors= of the saga)"
    )
