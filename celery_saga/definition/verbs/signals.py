"""Verbs for several signals at once, and for the tokens that stand for one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from celery_saga.core import codec, headers, wakeup
from celery_saga.core.orders import StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.core.replay import value_of
from celery_saga.definition.asking import order, signal_of, timed_out
from celery_saga.definition.signal import Signal
from celery_saga.definition.step import positive_s
from celery_saga.definition.verbs.base import Pass
from celery_saga.definition.verbs.waiting import RAISE
from celery_saga.engine import tokens
from celery_saga.errors import DefinitionError

__all__ = ["Signals"]

_WIDEST = 100
_WHERE = "run.wait_signals()"


class Signals(Pass):
    """Verbs for several signals, and for tokens."""

    def wait_signals(
        self,
        signals: Sequence[Signal[Any] | str],
        *,
        mode: Literal["all", "any"] | int = "all",
        timeout: float | timedelta | None = None,
        default: Any = RAISE,
    ) -> dict[str, Any]:
        """Wait for several signals and return their values by name, in the order in which the names were given.

        All that it takes is taken at once, when enough are there; until then, and by a time-out, nothing is: whoever
        else waits for one of them can have it. Signals that came before the wait count.

        Args:
            signals: 1 to 100 Signals or names, each name once.
            mode: `all` of them; `any` of them, the first; or so many of them, those that came first.
            timeout: in seconds or as timedelta, above 0; None: wait for ever.
            default: returned when the time-out comes first.
        Returns:
            The values of the signals that were taken: with `all` of each name, else of as many as were asked for.
        Raises:
            SignalTimeout: the time-out came first and there is no default.
            SignalFailed: a sender answered with an error that the saga does not declare; a declared one is raised as
                itself. Either is raised as soon as it comes; the other signals stay for other waits.
            DefinitionError, InvalidPayload: nothing was ordered.
        """
        self._check_outside_record("wait_signals")
        waited = self._header(signals)
        need = _need(mode, len(waited))
        timeout_s = None if timeout is None else positive_s(timeout, f"{_WHERE} timeout=")
        has_default = default is not RAISE
        if has_default and timeout_s is None:
            raise DefinitionError(f"{_WHERE}: default= without timeout= would never be returned; nothing was ordered.")
        default_text = self._encode(default, f"default of {_WHERE}") if has_default else "null"
        names = list(waited)

        def make() -> Order:
            spec = StepSpec(has_default=has_default, default_text=default_text, need=need)
            return order(StepKind.SIGNAL, args_text=codec.encode([names, {}]), spec=spec, delay_s=timeout_s)

        digest = codec.digest([names, need])
        settled = self._replay.ask(StepKind.SIGNAL, "signals", task=headers.shown(names), digest=digest, make=make)
        record = self._done(settled)
        if has_default and timed_out(record) and record.result_text == default_text:
            return default  # type: ignore[no-any-return]
        values: dict[str, Any] = codec.decode(value_of(record))
        return {name: one.read(values[name]) for name, one in waited.items() if name in values}

    def token(self, signal: Signal[Any] | str, expires: float | timedelta | None = None) -> str:
        """A text that stands for this signal to this run, once: whoever has it can send the signal.

        It is recorded, and the same in each replay; a later one for the same signal revokes it. It is redeemed by
        `app.saga.redeem`, and made for links: put it where only whom you ask gets it.

        Args:
            signal: a Signal, or its name; where the saga declares its signals, one of these.
            expires: seconds or timedelta from now, above 0; None: while the run lives.
        Raises:
            DefinitionError: `saga_secret_keys` is not set, or no such signal; nothing was recorded.
        """
        self._check_outside_record("token")
        name = signal_of(signal, None, self._saga.signals, self.saga).name
        expires_s = None if expires is None else positive_s(expires, "run.token() expires=")

        def make() -> Order:
            token = tokens.Token(self.id, self.generation, name, secrets.token_urlsafe(16))
            text = tokens.seal(self._secret_keys, token, "run.token()")
            expires_at = None if expires_s is None else wakeup.after(self._replay.now, expires_s)
            return order(StepKind.RECORD, args_text=tokens.recorded(text, token.id, expires_at))

        return tokens.text_of(
            self._replay.ask(StepKind.RECORD, "token", task=tokens.task_of(name), make=make).args_text
        )

    def _header(self, signals: object) -> dict[str, Signal[Any]]:
        if isinstance(signals, str | Signal) or not isinstance(signals, Sequence) or not 0 < len(signals) <= _WIDEST:
            raise DefinitionError(
                f"{_WHERE} takes a list of 1 to {_WIDEST} Signals or names, got {signals!r}; nothing was ordered."
            )
        waited: dict[str, Signal[Any]] = {}
        for each in signals:
            one = signal_of(each, None, self._saga.signals, self.saga)
            if one.name in waited:
                raise DefinitionError(
                    f"{_WHERE} got the signal {one.name!r} twice; nothing was ordered. Values come by name: wait for "
                    "the second one behind it."
                )
            waited[one.name] = one
        return waited


def _need(mode: object, width: int) -> int:
    if mode == "all":
        return width
    if mode == "any":
        return 1
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 < mode <= width:
        raise DefinitionError(
            f"{_WHERE} mode= takes 'all', 'any' or a whole number from 1 to the {width} signals given, got {mode!r}; "
            "nothing was ordered."
        )
    return mode
