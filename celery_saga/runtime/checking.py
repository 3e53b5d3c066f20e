"""Runs the transport guard on an app: for whoever asks, and in each worker once it is ready, into its log."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

from celery import Celery

from celery_saga.core.asked import shown
from celery_saga.core.orders import StepSpec
from celery_saga.core.retry import seconds
from celery_saga.errors import DefinitionError
from celery_saga.runtime import guard
from celery_saga.runtime.daemon import start_daemon
from celery_saga.runtime.edition import edition_of
from celery_saga.runtime.guard.bounded import Answer, ask
from celery_saga.runtime.guard.see_pool import open_engine_pools
from celery_saga.runtime.services import is_in_memory, services_of, store_of
from celery_saga.runtime.settings import PREFIX, read
from celery_saga.store import SqlStore, schema_state
from celery_saga.store.legible import Legible, legible
from celery_saga.store.ordered import ordered_steps

__all__ = ["check", "check_when_ready", "count_engine_pools", "impatient_store"]

logger = logging.getLogger("celery_saga.check")

_TIMEOUT_S = 2.0
_LEAST = {"concurrency": 1, "max_tasks_per_child": 1, "engine_pools": 0, "nodes": 1, "connections_per_process": 0}
_MAY_BE_NONE = ("concurrency", "max_tasks_per_child", "engine_pools")
_LOG_LEVELS = {
    guard.Level.ERROR: logging.ERROR,
    guard.Level.WARNING: logging.WARNING,
    guard.Level.INFO: logging.INFO,
}


@contextmanager
def impatient_store(app: Celery) -> Iterator[SqlStore]:
    """A store that does not wait for a database that is down, for one conversation; closed at its end.

    Raises:
        DefinitionError: no database is configured.
    """
    settings = read(app)
    if is_in_memory(settings):  # another store would be another, empty database
        yield services_of(app).store
        return
    store = store_of(settings, 0.0)
    try:
        yield store
    finally:
        store.close()


class _Questions:
    """The saga database for questions, opened by the first one, so that settings that forbid it are an answer."""

    def __init__(self, app: Celery, until: ExitStack) -> None:
        self._app = app
        self._until = until

    @cached_property
    def store(self) -> SqlStore:
        return self._until.enter_context(impatient_store(self._app))

    def connect(self) -> Any:
        """A DB-API connection, opened as every other one of the store."""
        return self.store.sessions.engine.raw_connection()

    def schema_state(self) -> str:
        """As the tables are now."""
        return str(schema_state(self.store))

    def legible(self) -> Legible:
        """How many of the latest live runs cannot be read here."""
        return legible(self.store)

    def orders(self) -> dict[str, Any]:
        """Time-outs of the steps that are ordered now, and which of them are remote."""
        default_s = read(self._app).step_timeout or 0.0
        timeouts_s: dict[str, float] = {}
        remote: set[str] = set()
        for task, spec_text in ordered_steps(self.store):
            spec = StepSpec.from_text(spec_text)
            timeout_s = spec.timeout_s or default_s
            timeouts_s[task] = max(timeout_s, timeouts_s.get(task, 0.0))
            if spec.remote:
                remote.add(task)
        return {"step_timeouts_s": timeouts_s, "remote_steps": remote}


def check(app: Celery, **options: Any) -> list[guard.Finding]:
    """Dangerous combinations of broker, database, pool and settings, errors first; asks the servers, bounded.

    Args:
        options: of `celery_saga.runtime.guard.gather`; what they leave out is taken from the app and its database.
    Raises:
        DefinitionError: an option that is unknown, or no number where one is; nothing was asked.
    """
    _check_options(options)
    edition_of(app)
    is_silent = options.get("asks", guard.Asks.ALL) is not guard.Asks.ALL
    if is_silent or not app.conf.get(PREFIX + "database_url") or "database_url" in options:
        return guard.inspect(app, guard.gather(app, **options))
    with ExitStack() as until:
        questions = _Questions(app, until)
        seen: dict[str, Any] = {
            "connect": questions.connect,
            "schema_state": questions.schema_state,
            "legible": questions.legible,
        }
        answer = ask(questions.orders, timeout_s=float(options.get("timeout_s", _TIMEOUT_S)))
        if isinstance(answer, Answer):  # why there is none is told by the checks of database and tables
            seen |= answer.value
        return guard.inspect(app, guard.gather(app, **{**seen, **options}))


def _check_options(options: Mapping[str, Any]) -> None:
    known = sorted(set(inspect.signature(guard.gather).parameters) - {"app"})
    for name, value in options.items():
        if name not in known:
            raise DefinitionError(
                f"check(): there is no option {name!r}; nothing was asked. It takes {', '.join(known)}."
            )
        least = _LEAST.get(name)
        if least is None or (value is None and name in _MAY_BE_NONE):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DefinitionError(
                f"check(): {name}= must be a whole number from {least}, got {shown(value)}; nothing was asked."
            )
    if "timeout_s" in options:
        seconds(options["timeout_s"], "check(): timeout_s=", left="nothing was asked")


def count_engine_pools(worker: Any) -> int:
    """How many of the application's own SQLAlchemy pools hold open connections; to be asked before the worker forks."""
    return open_engine_pools() if getattr(worker.pool_cls, "__module__", "").endswith("prefork") else 0


def check_when_ready(consumer: Any, *, engine_pools: int) -> None:
    """Check a worker that has just become ready, in a thread, and log what is found. Returns at once.

    Args:
        consumer: Celery's consumer, which knows app, worker and queues.
        engine_pools: what `count_engine_pools` said before the fork.
    """
    app, worker = consumer.app, consumer.controller
    options = {
        "role": guard.Role.WORKER,
        "pool": worker.pool_cls,
        "concurrency": getattr(worker, "max_concurrency", None) or worker.concurrency,
        "max_tasks_per_child": worker.max_tasks_per_child,
        # Here, because the consumer may add and cancel queues at any time.
        "queues": tuple(app.amqp.queues.consume_from),
        "engine_pools": engine_pools,
    }
    start_daemon(lambda: _log(app, options), "saga-check")


def _log(app: Celery, options: Mapping[str, Any]) -> None:
    try:
        for finding in check(app, **options):
            logger.log(_LOG_LEVELS[finding.level], "%s: %s %s", finding.code, finding.sentence, finding.remedy)
    except Exception:
        logger.exception("the deployment could not be checked; the worker goes on")
