"""The main process's side of a step's message: acknowledged when accepted, and watched for a lost process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.worker.request import Request

from celery_saga.runtime.celery_log import told_by_the_engine
from celery_saga.runtime.hints import HINTS, Hint, HintKind
from celery_saga.runtime.names import HEADER
from celery_saga.runtime.reference import reference
from celery_saga.runtime.services import services_of
from celery_saga.runtime.showing.masked import masked

__all__ = ["StepRequest"]

_Base: Any = Request  # what Celery's stubs say of its hooks is not what is called

_LOST = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)


class StepRequest(_Base):  # type: ignore[misc]
    """A mixin in front of a task's own request class; other messages pass through."""

    @property
    def saga_ref(self) -> Mapping[str, Any] | None:
        """Ids of the step, when the message is a step's; of the run, when it is a coordinator's."""
        return reference(self.request_dict.get(HEADER))

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """A lease replaces the late acknowledgement, and no time-out of the broker touches the step."""
        ref = self.saga_ref
        if ref is not None and pid != os.getpid():
            HINTS.started(pid, ref)
        super().on_accepted(pid, time_accepted)
        if ref is not None:
            self.acknowledge()

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """Reports a lost process before Celery does what it does."""
        ref = self.saga_ref
        if ref is not None:
            HINTS.finished(self._saga_pid())
            exc = getattr(exc_info.exception, "exc", exc_info.exception)
            if isinstance(exc, TimeLimitExceeded):
                HINTS.put(Hint(HintKind.TIME_LIMIT, ref, self._saga_pid(), _limit_s(exc)))
            elif isinstance(exc, _LOST):
                HINTS.put(Hint(HintKind.ENDED, ref, self._saga_pid()))
            with told_by_the_engine():
                return super().on_failure(exc_info, *args, **kwargs)
        return super().on_failure(exc_info, *args, **kwargs)

    def send_event(self, type: str, **fields: Any) -> None:
        """As Celery's own, without what a step returned or said in its errors, unless `saga_expose_args` is set."""
        if self.saga_ref is not None and fields and not services_of(self._app).settings.expose_args:
            fields = masked(fields)
        super().send_event(type, **fields)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Reports a hard limit, whose child is about to be killed."""
        ref = self.saga_ref
        if ref is not None and not soft:
            HINTS.finished(self._saga_pid())
            HINTS.put(Hint(HintKind.TIME_LIMIT, ref, self._saga_pid(), float(timeout)))
        with told_by_the_engine() if ref is not None else nullcontext():
            super().on_timeout(soft, timeout)

    def _saga_pid(self) -> int | None:
        pid: int | None = getattr(self, "worker_pid", None)
        return pid

    def _retry_worker_lost(self, exc: BaseException, exc_info: Any) -> bool:
        """Celery 5.7 would send the message again; the engine does that."""
        if self.saga_ref is not None:
            return True
        return bool(super()._retry_worker_lost(exc, exc_info))


def _limit_s(exc: BaseException) -> float:
    return float(exc.args[0]) if exc.args and isinstance(exc.args[0], int | float) else 0.0
