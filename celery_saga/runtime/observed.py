"""What a process tells OpenTelemetry of its runs, and the figures that one process at a time reads for the fleet."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from celery import Celery

from celery_saga.core.records import RunRecord
from celery_saga.engine.seldom import Seldom
from celery_saga.errors import SagaError
from celery_saga.runtime.fork_gate import FORK_GATE
from celery_saga.store import SqlStore
from celery_saga.store.figures import Figures, figures_of, marks_of, take_figures
from celery_saga.telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from celery_saga.runtime.services import Services
    from celery_saga.telemetry.gauges import Gauges

__all__ = ["expect_metrics", "telemetry_of"]

logger = logging.getLogger("celery_saga.telemetry")
seldom = Seldom(logger)

_READER, _REGISTERED = "_saga_figures", "_saga_gauges_registered"
_API = "opentelemetry.metrics"


def telemetry_of(services: Services, open_store: Callable[[], SqlStore] | None) -> Telemetry:
    """The telemetry of a process's services.

    Args:
        open_store: opens a store for reading figures; None: those of the services' own, in memory.
    """
    app = services.app
    there: _Reader | None = app.__dict__.get(_READER)
    if there is None or not there.is_of_this_process:
        app.__dict__[_READER] = _Reader(open_store, lambda: services.store)
    if _API in sys.modules:
        _register(app)

    def find(run_id: str) -> RunRecord:
        return services.engine.run_of(run_id)

    return Telemetry(find, lambda run_id: marks_of(services.store, run_id))


def expect_metrics(app: Celery) -> None:
    """In processes of workers: gauges are there from the first collection on, whenever the project sets metrics up."""
    if find_spec("opentelemetry") is not None and find_spec(_API) is not None:
        _register(app)


def _register(app: Celery) -> None:
    """Make the gauges, once for an app; a forked process has its parent's, which then ask its own reader."""
    if app.__dict__.get(_REGISTERED):
        return
    app.__dict__[_REGISTERED] = True
    from celery_saga.telemetry.gauges import register  # noqa: PLC0415  # imports what is optional

    register(lambda: app.__dict__[_READER].gauges)


class _Reader:
    """Reads over a connection of its own, closed each time: who collects has threads, and may fork.

    Args:
        open_store: as of `telemetry_of`.
        own: the services' store.
    """

    def __init__(self, open_store: Callable[[], SqlStore] | None, own: Callable[[], SqlStore]) -> None:
        self._open, self._own = open_store, own
        self._token, self._pid = uuid.uuid4().hex, os.getpid()
        self._gauges: Gauges | None = None

    @property
    def is_of_this_process(self) -> bool:
        """It was not inherited."""
        return self._pid == os.getpid()

    @property
    def gauges(self) -> Gauges:
        """What is asked by the instruments."""
        if self._gauges is None:
            from celery_saga.telemetry.gauges import Gauges  # noqa: PLC0415  # imports what is optional

            self._gauges = Gauges(self._read)
        return self._gauges

    def _read(self, lease_s: float) -> Figures | None:
        if not self.is_of_this_process:
            return None  # its own services are not made yet
        try:
            if self._open is None:
                return figures_of(self._own())
            with FORK_GATE.working():
                store = self._open()
                try:
                    mine = take_figures(store, token=self._token, lease_s=lease_s)
                    return figures_of(store) if mine else None
                finally:
                    store.close()
        except SagaError as error:
            seldom.warning("the figures of the runs cannot be read now: %s", error)
            return None
