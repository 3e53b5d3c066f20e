"""Whatever goes wrong in telemetry (a processor, a sampler, a propagator of the project's) touches no run."""

from __future__ import annotations

import logging
from types import TracebackType

from celery_saga.engine.seldom import Seldom

__all__ = ["harmless"]

_seldom = Seldom(logging.getLogger("celery_saga.telemetry"))


class harmless:  # noqa: N801  # reads as contextlib's do
    """A context manager: an exception in its block is told in the log, and goes no further."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        _seldom.exception("telemetry failed; the run is not touched by that")
        return True
