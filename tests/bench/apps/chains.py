"""An app without sagas, whose one task does nothing."""

from __future__ import annotations

import json
import os
from typing import Any

from celery import Celery
from celery.signals import worker_ready


def chains_app(settings: dict[str, Any]) -> Celery:
    """The app: by the worker, and by the measurement as a client."""
    made = Celery("bench_chains", set_as_current=False)
    made.conf.update(broker_connection_retry_on_startup=True, **settings)

    @made.task(name="bench.chains.nothing", shared=False)
    def nothing() -> None:
        """As the step of the sagas."""

    return made


if "BENCH_SETTINGS" in os.environ:
    app = chains_app(json.loads(os.environ["BENCH_SETTINGS"]))

    @worker_ready.connect
    def tell_ready(**_: object) -> None:
        """What the measurement waits for: a worker at WARNING says nothing of it."""
        print("the worker is ready.", flush=True)
