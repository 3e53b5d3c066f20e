"""Reads what `app.saga.chord(run_id, signals)(sig)` is given, and hangs it on the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from celery_saga.client import purity
from celery_saga.core.orders import ChordSpec
from celery_saga.definition.calls import call_of, require_signature
from celery_saga.definition.signal import Signal
from celery_saga.definition.step import StepOptions, spec_of, split
from celery_saga.engine import chords
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery_saga.client.binding import Binding

__all__ = ["SignalChord"]

_WHERE = "app.saga.chord()"
_WIDEST = 100


class SignalChord:
    """The signals of a run, as the header of a chord; called with a signature it hangs its task on them.

    Args:
        binding: of the app.
        run_id: the run.
        signals: Signals or names, each once.
    Raises:
        DefinitionError: none, or too many, or something else; nothing was written.
    """

    def __init__(self, binding: Binding, run_id: str, signals: Sequence[Signal[Any] | str]) -> None:
        self._binding = binding
        self._run_id = run_id
        self._header = _names(signals)

    def __repr__(self) -> str:
        return f"<chord of {', '.join(self._header)} of run {self._run_id}>"

    def __call__(self, sig: Any) -> str:
        """Hang a task on the signals: it is executed once one of each name was received, also those of before.

        Args:
            sig: a signature of one task: `task.s(...)` gets the values first, as a list in the order of the names,
                `task.si(...)` does not. `step(sig, retry=, timeout=, remote=)` gives it policies.
        Returns:
            The key of its step in `RunHandle.steps()`.
        Raises:
            RunNotFound, SignalNotExpected: no such run, or no such signal of its saga.
            ResultPurged: no more than the run's key is left.
            IllegalTransition: the run is ending, or has ended.
            DefinitionError, InvalidPayload, PayloadTooLarge: it is no such signature, or its arguments cannot be
                stored. In every case nothing was written.
        """
        purity.forbid("app.saga.chord()(sig)", "run.wait_signals([...]) and then run.step(sig)")
        plain, given = split(require_signature(sig, _WHERE))
        allowed = StepOptions(retry=given.retry, timeout_s=given.timeout_s, remote=given.remote)
        if given != allowed:
            raise DefinitionError(
                f"{_WHERE}: a task hung on signals takes retry=, timeout= and remote= alone, because it is no step of "
                "the body: nothing undoes it or waits for it; nothing was written."
            )
        call = call_of(plain, _WHERE, self._binding.engine.limits.max_payload_bytes)
        spec = spec_of(given, call.options)
        chord = ChordSpec(self._header, immutable=call.immutable)
        key = chords.chord(self._binding.engine.world, self._run_id, call, replace(spec, chord=chord))
        self._binding.after_start(self._run_id)
        return key


def _names(signals: object) -> tuple[str, ...]:
    if isinstance(signals, str | Signal) or not isinstance(signals, Iterable):
        raise DefinitionError(f"{_WHERE} takes a list of Signals or names, got {signals!r}; nothing was written.")
    names = tuple((each if isinstance(each, Signal) else Signal(each)).name for each in signals)
    if not 0 < len(names) <= _WIDEST or len(set(names)) < len(names):
        raise DefinitionError(f"{_WHERE} takes 1 to {_WIDEST} signals, each once, got {names!r}; nothing was written.")
    return names
