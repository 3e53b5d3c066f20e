"""Who may do what: everything is denied that the authorizer does not allow."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from celery_saga.core.records import RunRecord
from celery_saga.errors import RunNotFound
from celery_saga.http.messages import Request
from celery_saga.http.problems import forbidden

__all__ = ["ACTIONS", "Access", "Action", "Authorizer", "Grant"]

logger = logging.getLogger("celery_saga.http")

Action = Literal["read", "start", "signal", "retry", "cancel"]
ACTIONS: Final[tuple[Action, ...]] = ("read", "start", "signal", "retry", "cancel")
"""What an authorizer is asked about."""

Authorizer = Callable[[str, "RunRecord | str | None", Request], object]
"""Tells whether a request may do an action to a run: True; or the name of who acts, for the history; else it may not.

Called with the action, the run and the request. The run is its record; of `start` the name of the saga; None where it
is about no run in particular, or about one that does not exist. One that raises denies.
"""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_NAME = 200  # characters


@dataclass(frozen=True, slots=True)
class Grant:
    """It is allowed. `by`: the name that goes into the history; None: the authorizer gave none."""

    by: str | None


class Access:
    """Asks the authorizer.

    Args:
        authorizer: None: nothing is allowed.
    """

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    @property
    def is_there(self) -> bool:
        """There is an authorizer; without one nothing is allowed."""
        return self._authorizer is not None

    def ask(self, action: Action, subject: RunRecord | str | None, request: Request) -> Grant | None:
        """What the authorizer allows; None where it denies, raises, or says neither True nor a name."""
        if self._authorizer is None:
            return None
        try:
            said = self._authorizer(action, subject, request)
        except Exception:
            logger.exception("the authorizer raised, so %s %s was denied", request.method, request.path)
            return None
        if said is True:
            return Grant(None)
        if isinstance(said, str) and said.strip():
            return Grant(_CONTROL.sub("?", said)[:_MAX_NAME])
        if inspect.iscoroutine(said):
            said.close()
            logger.error("the authorizer is a coroutine function, so everything is denied; write it without async")
        return None

    def need(self, action: Action, subject: RunRecord | str | None, request: Request) -> Grant:
        """What the authorizer allows.

        Raises:
            Problem: it does not.
        """
        grant = self.ask(action, subject, request)
        if grant is None:
            raise forbidden(f"{request.method} {request.path}")
        return grant

    def need_run(
        self, action: Action, run_id: str, load: Callable[[str], RunRecord | None], request: Request
    ) -> tuple[RunRecord, Grant]:
        """The run, and what the authorizer allows to be done to it.

        Who may not read a run is answered as if it did not exist, so that nobody learns by asking which runs there are.

        Raises:
            RunNotFound: it does not exist, or may not be read; told only where the authorizer allows the action without
                a run.
            Problem: it is not allowed.
        """
        record = None if self._authorizer is None else load(run_id)
        if record is not None:
            grant = self.ask(action, record, request)
            if grant is not None:
                return record, grant
            if action != "read" and self.ask("read", record, request) is not None:
                raise forbidden(f"{request.method} {request.path}")
        self.need(action, None, request)
        raise RunNotFound(f"run {run_id[:_MAX_NAME]!r}: there is no such run; nothing was changed.", run_id=run_id)
