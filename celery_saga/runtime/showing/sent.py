"""Tells Flower of a run as soon as it is started, also where no worker is up: what Celery's clients do of a task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery
from celery.utils.nodenames import anon_nodename

from celery_saga.core.records import RunRecord
from celery_saga.runtime.settings import Settings, sends_sent_events
from celery_saga.runtime.showing.stream import put
from celery_saga.runtime.showing.told import sent_of_run

__all__ = ["SentEvents"]

logger = logging.getLogger("celery_saga.publisher")

_PAUSE_S = 30.0


class SentEvents:
    """`task-sent` of runs, over the connection that has just taken their first wake-ups.

    Never the input: who starts a run does not wait for it to be read again.
    """

    def __init__(self, app: Celery, settings: Settings, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._app, self._monotonic_s = app, monotonic_s
        self._is_on = sends_sent_events(app, settings)
        self._not_before_s = 0.0

    def send(self, producer: Any, runs: Sequence[RunRecord]) -> None:
        """Tell of these; never raises because of the broker, which is then left alone for 30 s."""
        if not self._is_on or not runs or self._monotonic_s() < self._not_before_s:
            return
        hostname = anon_nodename()
        try:
            put(self._app, producer, [sent_of_run(run, hostname) for run in runs], hostname)
        except Exception as error:  # noqa: BLE001  # whoever looks on must not stop who starts
            self._not_before_s = self._monotonic_s() + _PAUSE_S
            logger.debug("task events of runs were not sent: %s: %s", type(error).__name__, error)
