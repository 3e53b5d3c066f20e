"""Makes registered tasks fit to be steps: a mixin in front of each task's class, in the processes that execute them."""

from __future__ import annotations

import functools
import logging
from typing import Any

from celery import Celery
from celery.app.trace import task_has_custom
from celery.backends.base import DisabledBackend
from celery.utils.imports import symbol_by_name

from celery_saga.errors import SagaError
from celery_saga.runtime.attempt import Attempt, current
from celery_saga.runtime.celery_log import install_log_filters
from celery_saga.runtime.envelope import envelope, execute
from celery_saga.runtime.plain_task import PlainTask
from celery_saga.runtime.purity import forbid_sending
from celery_saga.runtime.request import StepRequest

__all__ = ["SagaStep", "install"]

logger = logging.getLogger("celery_saga.worker")

_NO_BACKEND = "_saga_no_backend"
_STEPS_OF_CELERY = ("celery.map", "celery.starmap")


class SagaStep:
    """In front of a task's class. Outside a step everything goes on as if it were not there."""

    def __init_subclass__(cls, **_: Any) -> None:
        """Keep hooks of the user's classes from seeing this one."""

    # Caught here, every tracer gets its outer half, whichever pool builds it.
    @property
    def __trace__(self) -> Any:
        return self.__dict__.get("_saga_trace")

    @__trace__.setter
    def __trace__(self, tracer: Any) -> None:
        self.__dict__["_saga_trace"] = None if tracer is None else envelope(self, tracer)
        self.__dict__["celery_tracer"] = tracer  # inline steps are claimed already

    @property
    def backend(self) -> Any:
        """While a step is executed: none, except for the user's own code.

        Before Celery 5.6 a worker ignores `ignore_result` of a message, and with the backend down and
        `task_track_started` a step would not even begin.
        """
        attempt = current.get()
        if attempt is not None and attempt.task is self and not attempt.in_body:
            return _no_backend(self.app)
        return super().backend  # type: ignore[misc]

    @backend.setter
    def backend(self, value: Any) -> None:
        self._backend = value

    @property
    def throws(self) -> tuple[type[BaseException], ...]:
        """With the errors that the saga declares: they are expected, and logged as such."""
        own = super().throws or ()  # type: ignore[misc]
        own = own if isinstance(own, tuple) else tuple(own) if isinstance(own, list | set) else (own,)
        attempt = current.get()
        return own if attempt is None or attempt.task is not self else (*own, *attempt.errors())

    def retry(self, *args: Any, **kwargs: Any) -> Any:
        """All of Celery's logic, without its message: the engine schedules the next attempt."""
        attempt = _attempt_of(self)
        if attempt is None:
            return super().retry(*args, **kwargs)  # type: ignore[misc]
        request = self.request  # type: ignore[attr-defined]
        was, request.is_eager = request.is_eager, True
        try:
            retry = super().retry(*args, **{**kwargs, "throw": False})  # type: ignore[misc]
        finally:
            request.is_eager = was
        attempt.retry = retry
        if (
            kwargs.get("args", args[0] if args else None) is not None
            or kwargs.get("kwargs", args[1] if len(args) > 1 else None) is not None
        ):
            attempt.new_args = (tuple(retry.sig.args), dict(retry.sig.kwargs))
        if kwargs.get("throw", True):
            raise retry
        return retry

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        """Celery's; refused in a step, whose result it would take away."""
        attempt = _attempt_of(self)
        if attempt is None:
            return super().replace(*args, **kwargs)  # type: ignore[misc]
        step = attempt.claimed.step
        raise SagaError(
            f"step {step.key!r}: self.replace() cannot be used in a step, because its result would be another task's; "
            "nothing was sent. Order that task as a step of its own."
        )

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """Celery's; refused in a body. `task_always_eager` ends up here; what is sent is refused at the broker."""
        forbid_sending(self.name)  # type: ignore[attr-defined]
        return super().apply(*args, **kwargs)  # type: ignore[misc]


def _no_backend(app: Celery) -> DisabledBackend:
    """One for each app: it holds nothing, and making it reads a dozen settings."""
    made: DisabledBackend | None = app.__dict__.get(_NO_BACKEND)
    if made is None:
        made = app.__dict__[_NO_BACKEND] = DisabledBackend(app=app)
    return made


def _attempt_of(task: Any) -> Attempt | None:
    attempt = current.get()
    # A nested direct call of the same task has a request of its own, in which retrying only raises.
    if attempt is None or attempt.task is not task or task.request.called_directly:
        return None
    return attempt


def install(app: Celery) -> int:
    """Put the mixin in front of every registered task of the user's that lacks it; how many were new."""
    install_log_filters()
    new = 0
    for name, task in list(app.tasks.items()):
        if (name in _STEPS_OF_CELERY or not name.startswith("celery.")) and not isinstance(task, SagaStep | PlainTask):
            try:
                _mix_in(task)
            except TypeError as error:
                # A class of another memory layout. Its messages are refused, never executed without the envelope.
                logger.error("the task %s cannot be a step: %s", name, error)
                continue
            new += 1
    return new


def _mix_in(task: Any) -> None:
    base = type(task)
    request = symbol_by_name(task.Request)
    attrs: dict[str, Any] = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "Request": request if issubclass(request, StepRequest) else type("Request", (StepRequest, request), {}),
    }
    if task_has_custom(task, "__call__"):
        # The user's, or in a worker the one that Celery puts over its own: the tracer calls the task itself.
        attrs["__call__"] = _calling
    tracer = task.__dict__.pop("__trace__", None)
    metaclass: Any = type(base)
    task.__class__ = metaclass(base.__name__, (SagaStep, base), attrs)
    if "__call__" not in attrs:
        task.run = _running(task, task.run)
    if tracer is not None:
        task.__trace__ = tracer


def _calling(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The inner half, outside the user's own `__call__`."""
    attempt = current.get()
    # Not `super()`: this function is shared by all classes made here.
    call = functools.partial(type(self).__mro__[2].__call__, self)
    if attempt is None or attempt.task is not self or attempt.entered:
        return call(*args, **kwargs)
    return execute(attempt, call, args, kwargs)


def _running(task: Any, run: Any) -> Any:
    """The inner half around `run`, where the tracer calls that."""

    @functools.wraps(run)
    def running(*args: Any, **kwargs: Any) -> Any:
        attempt = current.get()
        if attempt is None or attempt.task is not task or attempt.entered:
            return run(*args, **kwargs)
        return execute(attempt, run, args, kwargs)

    return running
