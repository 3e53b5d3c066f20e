"""Under which worker runs are shown: each event makes one of the name that it bears, so it must be a real one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from celery import Celery

from celery_saga.runtime.line import Line, Ticket

__all__ = ["Workers"]

logger = logging.getLogger("celery_saga.outbox")

_ANSWER_S = 1.0
_REMEMBERED_S = 60.0
_NONE_REMEMBERED_S = 10.0


class Workers:
    """Names of workers that are alive.

    Args:
        own: of the worker in whose process this is; None: it is none, and the workers are asked.
        monotonic_s: measures durations.
    """

    def __init__(
        self, app: Celery, own: str | None = None, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._own, self._monotonic_s = app, own, monotonic_s
        self._line = Line("saga-workers")
        self._found: list[str] = []
        self._until_s = 0.0

    def one(self, owner: str | None = None) -> str | None:
        """The worker of this process, else one that answered within the last minute; None: there is none.

        Args:
            owner: `host:pid` of who has done it; one on that host where there is one.
        """
        if self._own is not None:
            return self._own
        if self._monotonic_s() >= self._until_s:
            found = self._line.ask(self._ask, None, timeout_s=_ANSWER_S * 3)
            self._found = sorted(found or ())
            self._until_s = self._monotonic_s() + (_REMEMBERED_S if self._found else _NONE_REMEMBERED_S)
        host = None if owner is None else owner.rpartition(":")[0]
        there = [name for name in self._found if name.rpartition("@")[2] == host]
        return next(iter(there or self._found), None)

    def close(self) -> None:
        """Let the thread end."""
        self._line.close()

    def _ask(self, ticket: Ticket) -> None:
        try:
            with self._app.connection_for_write(connect_timeout=_ANSWER_S) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                answers = self._app.control.ping(timeout=_ANSWER_S, connection=connection)
            ticket.answer = [name for each in answers or () for name in each]
        except Exception as error:  # noqa: BLE001  # of the broker, whichever: nobody is there who could be named
            logger.debug("the workers cannot be asked for their names: %s: %s", type(error).__name__, error)
