"""Verbs for values that are the same in each replay."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from celery_saga.client import purity
from celery_saga.core import codec
from celery_saga.core.records import StepKind
from celery_saga.core.replay import value_of
from celery_saga.definition.asking import order
from celery_saga.definition.names import key_base
from celery_saga.definition.payload import decode_as
from celery_saga.definition.verbs.base import Pass

__all__ = ["Values"]

T = TypeVar("T")


class Values(Pass):
    """Verbs for values."""

    def now(self) -> datetime:
        """The database's time when the body first came here, aware UTC."""
        return decode_as(datetime, self._recorded("now", lambda: codec.encode(self._replay.now)))  # type: ignore[no-any-return]

    def uuid(self) -> uuid.UUID:
        """A random-looking UUID, the same in each replay; another one with each call and generation."""
        self._check_outside_record("uuid")
        return self._replay.draw()

    def random(self) -> float:
        """A random-looking number in [0, 1), the same in each replay; another one with each call and generation."""
        self._check_outside_record("random")
        # Hashed, because six bits of a UUID are always the same; 53 bits are what a float holds.
        drawn = hashlib.sha256(self._replay.draw().bytes).digest()
        return (int.from_bytes(drawn[:7]) >> 3) / 2**53

    def record(self, name: str, function: Callable[[], T]) -> T:
        """Call `function` the first time and record its value; later return the recorded value.

        For what differs from call to call: a setting, a feature flag, the time elsewhere. It may be called again when
        its process dies before the value is stored, so effects belong into steps.

        Args:
            name: the key; repeats in a scope get `#2`, `#3`.
            function: takes nothing; its value is one that can be stored, and comes back as the codec brings it back.
        Raises:
            InvalidPayload, PayloadTooLarge: the value cannot be stored; nothing was recorded.
            DefinitionError: the function calls the run; nothing was recorded.
        """

        def make_text() -> str:
            self._recording = name
            try:
                with purity.recording():
                    value = function()
            finally:
                self._recording = None
            return self._encode(value, f"record {name!r}")

        return self._recorded(name, make_text)  # type: ignore[no-any-return]

    def idempotency_key(self, step: str) -> str:
        """The key under which the next step of this name calls other systems: give it to the task as an argument.

        Args:
            step: the task's last name part, or the step's `name=`. The next step of that name in this scope counts.
        """
        self._check_outside_record("idempotency_key")
        return self._replay.idempotency_key(key_base(step) if "." in step else step)

    def _recorded(self, name: str, make_text: Callable[[], str]) -> Any:
        self._check_outside_record("record")
        settled = self._replay.ask(StepKind.RECORD, name, make=lambda: order(StepKind.RECORD, result_text=make_text()))
        return codec.decode(value_of(settled))
