"""A canvas that is started as before, by `delay()` or `apply_async()`, and is a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery_saga.client import outcome, purity
from celery_saga.client.handle import RunHandle
from celery_saga.client.outcome import State
from celery_saga.core.status import RunStatus
from celery_saga.definition.adopted import ADOPTED, NAME
from celery_saga.definition.canvas import read_canvas, to_plain
from celery_saga.definition.keys import check_key
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery_saga.client.binding import Binding

__all__ = ["CanvasHandle", "DurableCanvas"]


class CanvasHandle(RunHandle[Any]):
    """A handle of a canvas's run that answers as the AsyncResult did that `apply_async()` gave."""

    @property
    def status(self) -> State:  # type: ignore[override]  # a handle that code of before asks in Celery's words
        """As `state`: PENDING, STARTED, SUCCESS, FAILURE or REVOKED. The run's own is `run_status`."""
        return self.state

    @property
    def run_status(self) -> RunStatus:
        """The status of the run."""
        return self._now().run.status

    def get(self, timeout: float | timedelta | None = None, propagate: bool = True, **_: Any) -> Any:
        """`wait`, under Celery's name; what else AsyncResult.get takes concerns its polling, and is left out.

        Args:
            timeout: in seconds or as timedelta, at least 0; None: for ever.
            propagate: False: an error of the run is returned, not raised.
        Raises:
            WaitTimeout, RunFailed, RunCancelled, ResultPurged: as `wait`.
        """
        try:
            return self.wait(timeout)
        except outcome.ENDS as error:
            if propagate:
                raise
            return error

    def revoke(self, *_: Any, **__: Any) -> None:
        """`cancel`, under Celery's name: what it has done is undone."""
        self.cancel(reason="revoked")

    def forget(self) -> None:
        """Nothing: the run stays until it is purged."""


class DurableCanvas:
    """A canvas whose starts are runs; made by `app.saga.durable()`.

    Args:
        binding: of the app that it belongs to.
        canvas: a signature, or the JSON of one. It is read now; what is done to it later has no effect.
        key: two starts with one key are one run; 1 to 255 characters.
    Raises:
        DefinitionError: the canvas holds what is not carried, all of which the text lists; nothing was started.
        InvalidPayload: an argument in the canvas cannot be stored, or this cannot be a key; nothing was started.
    """

    def __init__(self, binding: Binding, canvas: object, key: str | None = None) -> None:
        self._binding = binding
        self._plain = to_plain(read_canvas(canvas, "saga.durable()", "nothing was started"))
        self._key = None if key is None else check_key(key, NAME)
        self._shown = repr(canvas)

    def __repr__(self) -> str:
        return f"<durable {self._shown}>"

    def delay(self, *args: Any, **kwargs: Any) -> CanvasHandle:
        """Start a run; the arguments go to the first tasks, in front of their own. Errors as of `apply_async`."""
        return self.apply_async(args, kwargs)

    __call__ = delay

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        countdown: float | timedelta | None = None,
        eta: datetime | None = None,
        **options: Any,
    ) -> CanvasHandle:
        """Start a run.

        Args:
            args, kwargs: for the first tasks, in front of their own arguments; immutable ones take none.
            countdown: the first task is taken after so long, in seconds or as timedelta.
            eta: the first task is taken at this instant, aware.
            options: refused: options of messages belong to the signatures.
        Returns:
            A handle, whose `created` is False where a run with the key was there.
        Raises:
            DefinitionError: an option that is not carried, or called inside a body.
            InvalidPayload, PayloadTooLarge: the arguments cannot be stored, or are too long with the canvas.
            IdempotencyConflict: the key is taken by another canvas, or by other arguments.
            StoreUnavailable, SchemaOutdated: the database cannot be used. In every case nothing was started.
        """
        purity.forbid("apply_async() of a durable canvas", "start it from a step's task")
        unknown = sorted(name for name, value in options.items() if value is not None)
        if unknown:
            raise DefinitionError(
                f"apply_async() of a durable canvas does not carry {', '.join(map(repr, unknown))}; nothing was "
                "started. Give options of messages to the signatures with .set(), and an id of your own as key= of "
                "durable()."
            )
        if isinstance(args, str | bytes) or not isinstance(args, Iterable | None):
            raise DefinitionError(f"apply_async() takes a list of arguments, got {args!r}; nothing was started.")
        saga = ADOPTED.options(countdown=countdown, eta=eta)
        if self._key is not None:
            saga = saga.options(key=self._key)
        handle = saga.start_at(self._binding, self._plain, list(args or ()), dict(kwargs or {}))
        engine = self._binding.engine
        drive = self._binding.after_start if self._binding.eager else None
        return CanvasHandle(engine, handle.id, saga, handle.created, key=self._key, drive=drive)
