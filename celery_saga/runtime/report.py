"""The Celery task `celery_saga.report`: checks in what a worker without celery_saga has executed."""

from __future__ import annotations

import logging
from typing import Any

from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery import Celery

from celery_saga.core import codec, failure
from celery_saga.core.attempts import Failed, Outcome, Succeeded
from celery_saga.core.ports import Claimed
from celery_saga.core.status import StepStatus
from celery_saga.engine.seldom import Seldom
from celery_saga.errors import SagaError, StepFailed, StoreUnavailable
from celery_saga.runtime.coordinator import OPTIONS
from celery_saga.runtime.messages import task_id_of
from celery_saga.runtime.names import REPORT
from celery_saga.runtime.plain_task import add_own
from celery_saga.runtime.reference import is_report
from celery_saga.runtime.services import Services, services_of

__all__ = ["register"]

logger = logging.getLogger("celery_saga.report")
seldom = Seldom(logger)


def register(app: Celery) -> None:
    """Add the task to an app that may not be configured yet."""

    # One positional argument, on purpose: an error callback with more is called inside the process that met the
    # error, which for a lost child is a worker's main process.
    def report(first: Any, **ids: Any) -> None:
        if not is_report(ids):
            seldom.warning("a message for %s names no attempt of a step; it was dropped", REPORT)
            return
        try:
            _check_in(services_of(app), first, ids)
        except StoreUnavailable as error:
            seldom.warning("a report for run %s was lost, its step will time out: %s", ids.get("run"), error)

    add_own(app, REPORT, report, **{**OPTIONS, "bind": False})


def _check_in(services: Services, first: Any, ids: dict[str, Any]) -> None:
    loaded = services.store.load(ids["run"])
    step = None if loaded is None else loaded.snapshot.steps.get(ids["step"])
    if loaded is None or step is None or step.claim_token != ids["token"] or step.status is not StepStatus.RUNNING:
        logger.info("a report for step %r of run %s came too late, or again", ids["step"], ids["run"])
        return
    claimed = Claimed(step, loaded.snapshot, loaded.now)
    services.engine.check_in(
        claimed, _failed(services, claimed) if ids["failed"] else _succeeded(services, claimed, first)
    )


def _succeeded(services: Services, claimed: Claimed, value: Any) -> Outcome:
    try:
        text = codec.encode(
            value, limit_bytes=services.settings.max_payload_bytes, what=f"result of step {claimed.step.key!r}"
        )
    except SagaError as error:
        return Failed(failure.capture(error), None, maybe=True)
    return Succeeded(text)


def _failed(services: Services, claimed: Claimed) -> Outcome:
    """Class and message are in the result backend, if the two apps share one: the callback gets the task's id alone."""
    error: BaseException | None = None
    try:
        result = services.app.AsyncResult(task_id_of(claimed.step)).result
        error = result if isinstance(result, BaseException) else None
    except Exception as trouble:  # noqa: BLE001  # whatever backend there is
        logger.info("the error of step %r of run %s cannot be read: %s", claimed.step.key, claimed.step.run_id, trouble)
    if error is None:
        text = (
            "it failed on a worker without celery_saga; class and message are unknown without a shared result backend"
        )
        error = StepFailed(claimed.step.key, "unknown", text, claimed.step.attempt)
    unseen = isinstance(error, WorkerLostError | TimeLimitExceeded | Terminated)
    return services.engine.failed(claimed, error, own_delay_s=None, maybe=unseen)
