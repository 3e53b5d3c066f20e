"""What is asked of a store so that a task's effect and its checkpoint commit together."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Protocol

from celery_saga.core.ports import Store


class Broken(Enum):
    """Why a transaction cannot commit although its task did nothing wrong."""

    CONFLICT = "conflict"  # a deadlock, a serialization failure: rolled back for certain
    LOST = "lost"  # the connection is gone; at the commit: nobody knows yet


class StepTransaction(Protocol):
    """An open transaction that a task and its checkpoint share."""

    @property
    def connection(self) -> Any:
        """What the task writes through."""

    @property
    def store(self) -> Store:
        """The store in this transaction: commits nothing."""

    @property
    def broken(self) -> Broken | None:
        """What the database has said of it so far; None: it can go on."""

    @property
    def first_error(self) -> BaseException | None:
        """The first error that the database gave in it; None: none."""

    def check(self) -> None:
        """Refuse to go on where the task has ended the transaction itself.

        Raises:
            SagaError: it has committed, rolled back or closed what is not its own.
        """


class Transactions(Protocol):
    """Opens transactions of steps; left without an exception they commit, with one they roll back."""

    def __call__(self) -> AbstractContextManager[StepTransaction]:
        """Open one."""
