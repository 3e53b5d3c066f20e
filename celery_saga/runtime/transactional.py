"""Transactional steps in a worker: the task is called inside the transaction that its checkpoint commits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_saga.core import codec
from celery_saga.core.attempts import Succeeded
from celery_saga.core.transactions import StepTransaction
from celery_saga.engine import transactional
from celery_saga.engine.ambient import Ambient
from celery_saga.errors import SagaError
from celery_saga.runtime.daemon import soft_limit_held
from celery_saga.store import SqlStore

if TYPE_CHECKING:
    from celery_saga.runtime.attempt import Attempt

__all__ = [
    "InTransaction",
    "TransactionsOf",
    "Unstorable",
    "ambient_of",
    "transactions_of",
    "use_ambient",
    "use_transactions",
]

TransactionsOf = Callable[[SqlStore], AbstractContextManager[StepTransaction]]
"""Opens a transaction of a step for a store; what a framework with connections of its own gives."""

_ATTRIBUTE = "_saga_transactions"
_AMBIENT = "_saga_ambient"


def use_transactions(app: Celery, opens: TransactionsOf | None) -> None:
    """Let transactional steps of an app run in transactions that a framework opens, on its own connections.

    Args:
        opens: its context manager commits when it is left without an exception and rolls back otherwise, as
            `celery_saga.store.in_transaction_of` makes one. None: the store's own connections again.
    """
    app.__dict__[_ATTRIBUTE] = opens


def transactions_of(app: Celery) -> TransactionsOf | None:
    """What `use_transactions` was given for an app; None: nothing, so that the store's own connections are used."""
    found: TransactionsOf | None = app.__dict__.get(_ATTRIBUTE)
    return found


def use_ambient(app: Celery, ambient: Ambient | None) -> None:
    """Let starts, signals and cancels of an app take part in a framework's transaction wherever one is open.

    Args:
        ambient: finds the transaction. None: only what `options(connection=...)` names.
    """
    app.__dict__[_AMBIENT] = ambient


def ambient_of(app: Celery) -> Ambient | None:
    """What `use_ambient` was given for an app."""
    found: Ambient | None = app.__dict__.get(_AMBIENT)
    return found


class Unstorable(Exception):  # noqa: N818 - carries the error
    """The task's result cannot be stored; everything is rolled back."""

    def __init__(self, error: SagaError) -> None:
        super().__init__(error)
        self.error = error


class InTransaction:
    """A task executed with its checkpoint; made once all of it has committed, or nothing is left.

    Args:
        attempt: a claimed attempt of a transactional step.
        call: calls the task with the connection to write through; called again after a deadlock.
    Raises:
        Unstorable: the task's result.
        Exception: what the task raised. In both cases all that it wrote is rolled back.
    """

    def __init__(self, attempt: Attempt, call: Callable[[Any], Any]) -> None:
        self.value: Any = None
        self._call = call
        self._attempt = attempt
        self._step = attempt.claimed.step
        self._world = attempt.services.engine.world
        services = attempt.services
        opens = (services.is_shared and transactions_of(services.app)) or SqlStore.step_transaction
        store = services.store
        self._transition = transactional.execute(
            self._world, attempt.claimed, self._task, lambda: opens(store), uninterrupted=soft_limit_held
        )

    @property
    def has_landed(self) -> bool:
        """It has committed; False: the claim was no longer ours."""
        return self._transition is not None

    def follow(self) -> None:
        """Send what follows, and have the run decided."""
        if self._transition is not None:
            with soft_limit_held():
                transactional.follow(self._world, self._transition)

    def _task(self, connection: Any) -> Succeeded:
        self.value = self._call(connection)
        limit_bytes = self._world.limits.max_payload_bytes
        try:
            text = codec.encode(self.value, limit_bytes=limit_bytes, what=f"result of step {self._step.key!r}")
        except SagaError as error:
            raise Unstorable(error) from error
        return Succeeded(text, self._attempt.unwritten_progress())
