"""Shows each run in the app's result backend, under its run id: what `AsyncResult(run_id)` answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from celery import Celery, states
from celery.app import backends
from celery.backends.base import DisabledBackend
from celery.backends.rpc import RPCBackend
from celery.exceptions import TaskRevokedError

from celery_saga.client import outcome
from celery_saga.core.lifecycle import Announcement
from celery_saga.core.ports import Loaded
from celery_saga.errors import InvalidPayload, PayloadUnreadable, ResultPurged, RunCancelled, RunFailed
from celery_saga.runtime.line import Line, Ticket
from celery_saga.store import SqlStore

__all__ = ["ResultMirror"]

logger = logging.getLogger("celery_saga.outbox")


class ResultMirror:
    """A `Deliverer` that stores runs as they are now, so that the order of what asks for it does not matter.

    Args:
        app: whose result backend it is; one instance of it is made here, for this thread alone.
        store: where the runs are.
        timeout_s: how long the backend may take for a batch; what it does later is done again.
    """

    def __init__(self, app: Celery, store: SqlStore, *, timeout_s: float) -> None:
        self._app, self._store, self._timeout_s = app, store, timeout_s
        self._line = Line("saga-results")
        self._backend: Any = None
        self._is_told = False
        self.trouble = ""

    def deliver(self, batch: Sequence[Announcement]) -> int:
        """See `Deliverer`."""
        self.trouble = ""
        loaded = [self._store.load(each.run_id) for each in batch]
        done: int = self._line.ask(lambda ticket: self._store_all(ticket, loaded), 0, timeout_s=self._timeout_s)
        return done

    def close(self) -> None:
        """See `Deliverer`."""
        self._line.close()

    def _store_all(self, ticket: Ticket, runs: Sequence[Loaded | None]) -> None:
        try:
            backend = self._the_backend()
            for loaded in runs:
                if ticket.abandoned:
                    return
                if loaded is not None and backend is not None:
                    self._show(backend, loaded)
                ticket.answer += 1
        except Exception as error:  # noqa: BLE001  # of the backend, whichever: what was not stored stays
            self.trouble = f"{type(error).__name__}: {error}"

    def _the_backend(self) -> Any:
        """None: there is none that could answer for a run; what was to be stored is forgotten."""
        if self._backend is None:
            by_url: Any = backends.by_url
            made, url = by_url(self._app.backend_cls or self._app.conf.result_backend, self._app.loader)
            self._backend = made(app=self._app, url=url)
        if isinstance(self._backend, (DisabledBackend, RPCBackend)):
            if not self._is_told:
                self._is_told = True
                logger.warning(
                    "saga_publish_results is set, but the result backend %s cannot show runs; none are stored. Set "
                    "result_backend, or take the setting out.",
                    self._backend.as_uri(),
                )
            return None
        return self._backend

    def _show(self, backend: Any, loaded: Loaded) -> None:
        run = loaded.snapshot.run
        if not run.status.is_end:
            backend.forget(run.id)  # it has left its end: an operator has taken it up
            return
        state, value = self._outcome(loaded)
        if self._is_ignored(state):
            return
        if state != states.SUCCESS or run.generation > 1:
            # Most backends keep a success for ever, whatever comes after it.
            backend.forget(run.id)
        try:
            backend.store_result(run.id, value, state)
        except Exception as error:
            backend.get_state(run.id)  # raises where it is the backend that does not answer
            self._tell(backend, run.id, error)

    def _outcome(self, loaded: Loaded) -> tuple[str, Any]:
        """Plain values: no worker's class is needed to read them."""
        try:
            return states.SUCCESS, outcome.outcome_of(loaded.snapshot, None)
        except RunCancelled as error:
            return states.REVOKED, TaskRevokedError(str(error))
        except RunFailed as error:
            return states.FAILURE, RunFailed(str(error))
        except (ResultPurged, PayloadUnreadable) as error:
            return states.FAILURE, type(error)(str(error))

    def _is_ignored(self, state: str) -> bool:
        conf = self._app.conf
        is_kept_error = state != states.SUCCESS and conf.task_store_errors_even_if_ignored
        return bool(conf.task_ignore_result) and not is_kept_error

    def _tell(self, backend: Any, run_id: str, error: Exception) -> None:
        """The backend answers, so it is the value: whoever asks is told, and the run is what it was."""
        logger.error("run %s has ended, and its result cannot be kept in the result backend: %s", run_id, error)
        text = (
            f"run {run_id!r} has ended, but the result backend cannot keep its result ({type(error).__name__}: "
            f"{error}); nothing of the run was changed. Ask app.saga.get({run_id!r}).result."
        )
        backend.store_result(run_id, InvalidPayload(text), states.FAILURE)
