"""What a Celery worker gets: fit tasks in its executing processes, and the sweeper in its main process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from celery import Celery, bootsteps, current_app, signals
from celery.app.trace import build_tracer

from celery_saga.runtime.assembly import sweeper_services
from celery_saga.runtime.edition import edition_of
from celery_saga.runtime.hints import HINTS, Hint, HintKind
from celery_saga.runtime.names import COORDINATE, HEADER, STEP
from celery_saga.runtime.observed import expect_metrics
from celery_saga.runtime.reference import reference
from celery_saga.runtime.saga_task import register_sagas
from celery_saga.runtime.services import host, is_attached, per_process
from celery_saga.runtime.settings import read
from celery_saga.runtime.step_task import install
from celery_saga.runtime.sweeper import SweeperLoop

__all__ = ["SWEEPER_OPTION", "SagaSweeperStep", "add_to_worker", "connect", "is_configured", "prepare"]

logger = logging.getLogger("celery_saga.worker")

SWEEPER_OPTION = click.Option(
    ("--no-saga-sweeper",), is_flag=True, default=False, help="Do not look for sagas that are due in this worker."
)
"""The worker option of celery_saga."""


_Base: Any = bootsteps.StartStopStep


class SagaSweeperStep(_Base):  # type: ignore[misc]
    """Runs the sweeper's thread in the main process, from after the first forks to the warm shutdown."""

    requires = ("celery.worker.components:Pool",)
    label = "SagaSweeper"

    def __init__(self, worker: Any, no_saga_sweeper: bool = False, **_: Any) -> None:
        super().__init__(worker)
        self._wanted = not no_saga_sweeper
        self._loop: SweeperLoop | None = None

    def include_if(self, worker: Any) -> bool:
        """Not where it was switched off, or where there is no database."""
        return self._wanted and is_configured(worker.app) and read(worker.app).sweeper

    def create(self, worker: Any) -> SagaSweeperStep:
        """Celery starts and stops this step itself."""
        return self

    def start(self, worker: Any) -> None:
        """Start the thread, once."""
        if self._loop is None:
            app, name = worker.app, worker.hostname
            self._loop = SweeperLoop(lambda: sweeper_services(app, name), pids=lambda: _children(worker))
            self._loop.start()

    def stop(self, worker: Any) -> None:
        """End the thread."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()

    terminate = stop


def is_configured(app: Celery) -> bool:
    """A database is configured; loads the app's configuration."""
    edition_of(app)
    return bool(app.conf.get("saga_database_url"))


def _children(worker: Any) -> Iterable[int]:
    """Pids of the pool's children; none for pools without processes."""
    pool = getattr(getattr(worker, "pool", None), "_pool", None)
    return [
        pid
        for process in list(getattr(pool, "_pool", None) or ())
        if isinstance(pid := getattr(process, "pid", None), int) and pid > 0
    ]


def add_to_worker(app: Celery) -> None:
    """Announce bootstep and option; may be called before the app is configured, and again."""
    app.steps["worker"].add(SagaSweeperStep)
    command = getattr(sys.modules.get("celery.bin.worker"), "worker", None)
    if not any("--no-saga-sweeper" in option.opts for option in getattr(command, "params", ())):
        app.user_options["worker"].add(SWEEPER_OPTION)


def prepare(app: Celery) -> None:
    """Make the tasks of this process fit to be steps, and register the sagas as tasks."""
    install(app)  # first: without it a step's message must not reach its task
    register_sagas(app, per_process(app).get().registry)
    expect_metrics(app)
    if getattr(app, "use_fast_trace_task", False):
        # Registered after the pool's initialiser built the others': the fast path expects one.
        for name, task in list(app.tasks.items()):
            if task.__trace__ is None:
                task.__trace__ = build_tracer(name, task, app.loader, host(), app=app)


def _check_routes(app: Celery) -> None:
    """A router that raises on our names would make every publish fail, for ever: say so at once."""
    queue = read(app).queue
    for name, options in ((COORDINATE, {"queue": queue} if queue else {}), (STEP, {})):
        try:
            task: Any = app.tasks.get(name)
            app.amqp.router.route(dict(options), name, (), {}, task)
        except Exception as error:  # noqa: BLE001  # any router of the user's
            logger.error(
                "the app's router refuses %s: %s: %s; sagas cannot run. Route it, or set saga_queue.",
                name,
                type(error).__name__,
                error,
            )


def connect(has_sagas: Callable[[Celery], bool]) -> None:
    """Prepare each worker of this process whose app has sagas.

    At `worker_init` the project's modules are imported and the pool is not yet forked; in spawned children only
    `worker_process_init` comes, on an app that is another object.

    Args:
        has_sagas: tells, and adds them where only the configuration knows of them.
    """

    engine_pools: dict[int, int] = {}

    def on_worker_init(sender: Any = None, **_: Any) -> None:
        app = getattr(sender, "app", None)
        if app is not None and has_sagas(app):
            if getattr(sender, "task_events", False) and app.conf.get("saga_send_events") is None:
                app.conf.saga_send_events = True  # -E; the pool's processes do not see it otherwise
            prepare(app)
            _check_routes(app)
        if app is not None and is_attached(app):
            # Imported now: a fork must not meet a half-imported module.
            from celery_saga.runtime.checking import count_engine_pools  # noqa: PLC0415  # only workers need it

            engine_pools[id(app)] = count_engine_pools(sender)

    def on_worker_ready(sender: Any = None, **_: Any) -> None:
        app = getattr(sender, "app", None)
        # Also without a database: that there is none is what it has to say.
        if app is not None and is_attached(app):
            from celery_saga.runtime.checking import check_when_ready  # noqa: PLC0415  # only workers need it

            check_when_ready(sender, engine_pools=engine_pools.pop(id(app), 0))

    def on_process_init(**_: Any) -> None:
        app: Any = current_app
        app = app._get_current_object()
        if has_sagas(app):
            prepare(app)

    signals.worker_init.connect(on_worker_init, weak=False, dispatch_uid="celery_saga.worker_init")
    signals.worker_ready.connect(on_worker_ready, weak=False, dispatch_uid="celery_saga.worker_ready")
    signals.worker_process_init.connect(on_process_init, weak=False, dispatch_uid="celery_saga.process_init")
    signals.task_revoked.connect(_on_task_revoked, weak=False, dispatch_uid="celery_saga.task_revoked")


def _on_task_revoked(request: Any = None, **_: Any) -> None:
    given = getattr(request, HEADER, None) or (getattr(request, "headers", None) or {}).get(HEADER)
    ref = reference(given)
    if ref is not None:
        HINTS.put(Hint(HintKind.REVOKED, dict(ref)))
