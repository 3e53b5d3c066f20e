"""What a handle needs of a saga's definition: to read its result, rebuild its errors and check its signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from celery_saga.core.failure import Failure

__all__ = ["Catalogue", "CheckCall", "KnownSaga", "KnownSignal", "Signatures"]


class KnownSaga(Protocol):
    """A saga that this process knows."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def version(self) -> int:
        """Its version, from 1."""

    def read_result(self, text: str) -> Any:
        """The result of a run, of the annotated type, from codec text."""

    def rebuild(self, error: Failure, *, step: str | None = None, attempts: int = 0) -> BaseException:
        """The exception that a stored error stands for."""

    def check_signal(self, name: str, value: object, *, has_error: bool = False) -> None:
        """Refuse a signal that the saga does not declare, or a value that is not of the declared type."""


class KnownSignal(Protocol):
    """A signal with a name and a type."""

    @property
    def name(self) -> str:
        """Its name."""

    def check(self, value: object) -> None:
        """Refuse a value that is not of the type."""


@runtime_checkable
class Catalogue(Protocol):
    """Finds sagas by name and version."""

    def get(self, name: str, version: int) -> KnownSaga | None:
        """The saga, or None where this process does not know it."""


@runtime_checkable
class Signatures(Protocol):
    """Knows what tasks take."""

    @property
    def check_call(self) -> CheckCall:
        """Refuses arguments that a task does not take."""


CheckCall = Callable[[str, str], bool]
"""Checks codec text of [args, kwargs] against the signature of the task of this name.

False: this process does not know the task. Raises InvalidPayload where it does not take them.
"""
