"""Durable sagas for an existing Celery deployment: the public names, loaded when first used."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from celery_saga._distribution import refuse_the_other_distribution

if TYPE_CHECKING:
    from celery_saga.client.current import current_step
    from celery_saga.client.handle import RunHandle
    from celery_saga.client.log_filter import SagaLogFilter
    from celery_saga.client.page import Page
    from celery_saga.core.records import HistoryRecord, RunRecord, StepRecord
    from celery_saga.definition.decorator import saga
    from celery_saga.definition.lane import Lane
    from celery_saga.definition.results import Collected, Outcome, Winner
    from celery_saga.definition.retry import Retry
    from celery_saga.definition.run import Run
    from celery_saga.definition.saga import Saga
    from celery_saga.definition.signal import Signal
    from celery_saga.definition.step import step
    from celery_saga.errors import (
        DeadlineExceeded,
        DefinitionError,
        DuplicateStepError,
        IdempotencyConflict,
        IllegalTransition,
        InvalidPayload,
        InvalidToken,
        NonDeterminismError,
        NonRetryable,
        PayloadTooLarge,
        PayloadUnreadable,
        RateLimited,
        ResultPurged,
        RunCancelled,
        RunExists,
        RunFailed,
        RunNotFound,
        SagaError,
        ScheduleNotFound,
        SchemaOutdated,
        SignalDuplicate,
        SignalExpired,
        SignalFailed,
        SignalNotExpected,
        SignalTimeout,
        StepFailed,
        StepLost,
        StepTimeout,
        StoreUnavailable,
        UnknownSaga,
        WaitTimeout,
    )
    from celery_saga.runtime.app import CelerySaga

__all__ = [  # noqa: RUF022 - a map of the package, in the order in which one meets the names
    # adding sagas to a Celery app
    "CelerySaga",
    # writing a saga
    "saga",
    "Saga",
    "Run",
    "step",
    "Signal",
    "Retry",
    "NonRetryable",
    "Lane",
    # ... and what groups, maps and races give
    "Collected",
    "Outcome",
    "Winner",
    # inside a step's task
    "current_step",
    # following and steering a run
    "RunHandle",
    "Page",
    "RunRecord",
    "StepRecord",
    "HistoryRecord",
    # its place in the log
    "SagaLogFilter",
    # errors: every one is a SagaError
    "SagaError",
    # ... in a definition or its arguments
    "DefinitionError",
    "DuplicateStepError",
    "InvalidPayload",
    "PayloadTooLarge",
    "PayloadUnreadable",
    # ... when starting or finding a run
    "IdempotencyConflict",
    "RunExists",
    "RunNotFound",
    "ScheduleNotFound",
    "UnknownSaga",
    "RateLimited",
    # ... as the end of a run
    "RunFailed",
    "RunCancelled",
    "ResultPurged",
    "WaitTimeout",
    # ... raised in a body
    "StepFailed",
    "StepTimeout",
    "StepLost",
    "DeadlineExceeded",
    "SignalTimeout",
    "SignalFailed",
    "NonDeterminismError",
    # ... when sending a signal
    "SignalDuplicate",
    "SignalNotExpected",
    "SignalExpired",
    "InvalidToken",
    # ... of the engine and its tables
    "IllegalTransition",
    "StoreUnavailable",
    "SchemaOutdated",
]

_HOMES = {
    "CelerySaga": "celery_saga.runtime.app",
    "saga": "celery_saga.definition.decorator",
    "Saga": "celery_saga.definition.saga",
    "Run": "celery_saga.definition.run",
    "step": "celery_saga.definition.step",
    "Signal": "celery_saga.definition.signal",
    "Lane": "celery_saga.definition.lane",
    "Retry": "celery_saga.definition.retry",
    "Collected": "celery_saga.definition.results",
    "Outcome": "celery_saga.definition.results",
    "Winner": "celery_saga.definition.results",
    "current_step": "celery_saga.client.current",
    "RunHandle": "celery_saga.client.handle",
    "Page": "celery_saga.client.page",
    "RunRecord": "celery_saga.core.records",
    "StepRecord": "celery_saga.core.records",
    "HistoryRecord": "celery_saga.core.records",
    "SagaLogFilter": "celery_saga.client.log_filter",
}
_ERRORS = "celery_saga.errors"  # the home of every public name that _HOMES does not list

refuse_the_other_distribution()

# What a program shows of our records is its own choice; without this Python prints those of problems on stderr.
logging.getLogger(__name__).addHandler(logging.NullHandler())


if not TYPE_CHECKING:  # else a checker would believe in every name that somebody imports

    def __getattr__(name: str) -> object:
        """Load a public name from its home on first use, and keep it.

        Raises:
            AttributeError: `name` is not in `__all__`.
        """
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_HOMES.get(name, _ERRORS)), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, loaded or not, and what a module has anyway."""
    return sorted({*globals(), *__all__})
