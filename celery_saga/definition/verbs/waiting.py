"""Verbs that wait: for a signal, for a time."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, overload

from celery_saga.core import codec
from celery_saga.core.orders import StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.core.replay import value_of
from celery_saga.core.retry import seconds
from celery_saga.definition.asking import aware, order, signal_of, timed_out
from celery_saga.definition.names import is_explicit, key_base
from celery_saga.definition.signal import Signal
from celery_saga.definition.step import positive_s
from celery_saga.definition.verbs.base import Pass
from celery_saga.errors import DefinitionError

__all__ = ["RAISE", "Waiting"]

T = TypeVar("T")
D = TypeVar("D")


class _Raise:
    def __repr__(self) -> str:
        return "RAISE"


RAISE: Final = _Raise()
"""The default of a wait that raises SignalTimeout when its time-out has come."""


class Waiting(Pass):
    """Verbs that wait."""

    @overload
    def wait_signal(self, signal: Signal[T], *, timeout: float | timedelta | None = None) -> T: ...
    @overload
    def wait_signal(self, signal: Signal[T], *, timeout: float | timedelta, default: D) -> T | D: ...
    @overload
    def wait_signal(self, signal: str, *, timeout: float | timedelta | None = None, type: builtins.type[T]) -> T: ...
    @overload
    def wait_signal(self, signal: str, *, timeout: float | timedelta, type: builtins.type[T], default: D) -> T | D: ...
    @overload
    def wait_signal(self, signal: str, *, timeout: float | timedelta | None = None, default: Any = RAISE) -> Any: ...

    def wait_signal(
        self, signal: Any, *, timeout: float | timedelta | None = None, type: Any = None, default: Any = RAISE
    ) -> Any:
        """Wait for a signal and return its value. Signals that came before the wait count; each is taken once.

        Args:
            signal: a Signal, or its name; where the saga declares its signals, one of these.
            timeout: in seconds or as timedelta, above 0; None: wait for ever.
            type: of the value, when `signal` is a name; a Signal brings its own.
            default: returned when the time-out comes first.
        Raises:
            SignalTimeout: the time-out came first and there is no default.
            SignalFailed: the sender answered with an error that the saga does not declare; a declared one is raised
                as itself.
            DefinitionError, InvalidPayload: nothing was ordered.
        """
        self._check_outside_record("wait_signal")
        waited = signal_of(signal, type, self._saga.signals, self.saga)
        timeout_s = None if timeout is None else positive_s(timeout, "run.wait_signal() timeout=")
        has_default = default is not RAISE
        if has_default and timeout_s is None:
            raise DefinitionError(
                "run.wait_signal(): default= without timeout= would never be returned; nothing was ordered."
            )
        default_text = self._encode(default, f"default of signal {waited.name!r}") if has_default else "null"

        def make() -> Order:
            spec = StepSpec(has_default=has_default, default_text=default_text)
            return order(StepKind.SIGNAL, spec=spec, delay_s=timeout_s)

        settled = self._replay.ask(StepKind.SIGNAL, key_base(waited.name), task=waited.name, make=make)
        record = self._done(settled)
        if has_default and timed_out(record) and record.result_text == default_text:
            return default
        return waited.read(codec.decode(value_of(record)))

    def sleep(self, duration: float | timedelta, name: str | None = None) -> None:
        """Go on after so long; meanwhile the run is a row and occupies no worker.

        Args:
            duration: seconds or timedelta, at least 0.
            name: the key; else `sleep`.
        Raises:
            DefinitionError: negative or not finite; nothing was ordered.
        """
        delay_s = seconds(duration, "run.sleep()")
        self._timer(name, "sleep", lambda: order(StepKind.TIMER, delay_s=delay_s))

    def sleep_until(self, at: datetime, name: str | None = None) -> None:
        """Go on at an instant; at once when it has passed.

        Args:
            at: aware, in any zone. A local time that a change of the clocks leaves out is read with the offset from
                before it; one that comes twice is the first, or with `fold=1` the second.
            name: the key; else `sleep_until`.
        Raises:
            DefinitionError: it has no zone, or is no datetime; nothing was ordered.
        """
        instant = aware(at, "run.sleep_until()")
        self._timer(name, "sleep_until", lambda: order(StepKind.TIMER, at=instant))

    def _timer(self, name: str | None, base: str, make: Callable[[], Order]) -> None:
        self._check_outside_record(base)
        settled = self._replay.ask(StepKind.TIMER, name or base, explicit=is_explicit(name), make=make)
        self._done(settled)
