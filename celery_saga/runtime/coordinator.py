"""The Celery task that advances a run: `celery_saga.coordinate`."""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery

from celery_saga.engine.seldom import Seldom
from celery_saga.errors import StoreUnavailable
from celery_saga.runtime.inline import InlineDelivery
from celery_saga.runtime.names import COORDINATE, HEADER, STEP
from celery_saga.runtime.plain_task import add_own
from celery_saga.runtime.reference import run_reference
from celery_saga.runtime.services import owner, services_of

__all__ = ["OPTIONS", "register"]

logger = logging.getLogger("celery_saga.coordinator")
seldom = Seldom(logger)

# Acknowledged when accepted: the wake-up stays in the store until a decision has been committed.
OPTIONS: dict[str, Any] = {
    "bind": True,
    "ignore_result": True,
    "acks_late": False,
    "reject_on_worker_lost": False,
    "track_started": False,
    "typing": False,
    "rate_limit": None,
    "max_retries": 0,
    # Flower shows the run and its steps; who advances it in between is nobody's concern.
    "send_events": False,
}


def coordinate(self: Any, run_id: str | None = None) -> None:
    """Advance the run, or the part of it, that the message names."""
    given = getattr(self.request, HEADER, None) or (self.request.headers or {}).get(HEADER)
    if run_id is not None:
        given = {**(given if isinstance(given, dict) else {}), "run": run_id}
    ref = run_reference(given)
    if ref is None:
        seldom.warning("a message for %s names no run; it was dropped", COORDINATE)
        return
    run_id = str(ref["run"])
    try:
        services = services_of(self.app)
        if "part" in ref:
            services.engine.coordinate(run_id, part=(ref["generation"], ref["part"]), owner=owner())
            return
        with InlineDelivery(services, self.request) as inline:
            services.engine.coordinate(run_id, inline)
    except StoreUnavailable as error:
        seldom.warning("run %s was not advanced, it stays due: %s", run_id, error)


def step(self: Any) -> None:
    """Never executed: its strategy hands each message on to the user's task."""
    logger.error("%s was executed as a task; a message with the header %r is needed", STEP, HEADER)


def register(app: Celery) -> None:
    """Add both tasks to an app that may not be configured yet."""
    strategies = {
        COORDINATE: "celery_saga.runtime.inline_strategy:coordinate_strategy",
        STEP: "celery_saga.runtime.strategy:step_strategy",
    }
    # Watched like a step: it may execute some, and decides parts.
    watched = {"Strategy": strategies[COORDINATE], "Request": "celery_saga.runtime.request:StepRequest"}
    add_own(app, COORDINATE, coordinate, **watched, **OPTIONS)
    add_own(app, STEP, step, Strategy=strategies[STEP], **OPTIONS)
