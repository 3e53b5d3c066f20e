"""Chords: tasks of the user's own that are hung on a run's signals, and are executed once each of these has come.

Theory of operation. A chord is a step row outside the body: it has no place, a replay does not see it, its end wakes
nobody and its failure fails nothing. It observes: each signal with a value passes it in the transaction in which the
run looks at it first, before any wait can take it. Once it has seen one of each name it is a step like any other. Where
the forward part ends before, it is cancelled; where it is complete it is still executed: undos do not wait for that,
the end of the run does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from celery_saga.core import codec, wakeup
from celery_saga.core.orders import Call, ChordSpec, StepSpec
from celery_saga.core.records import SignalRecord, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus

_PREFIX = "!chord/"
_UNDER_WAY = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING)


def hang(
    s: Snapshot, call: Call, spec: StepSpec, signals: Iterable[SignalRecord], now: datetime, resend_s: float
) -> Snapshot:
    """Add a chord; it is scheduled at once where all of its signals were received already.

    Args:
        call: the task.
        spec: its policies, and as `chord` the names of its signals.
        signals: all that the run has received, also those that were taken, oldest first.
    """
    numbers = (int(x.key.removeprefix(_PREFIX)) for x in s.steps.values() if x.kind is StepKind.CHORD)
    number = max(numbers, default=0) + 1
    step = StepRecord(
        run_id=s.run.id,
        generation=s.run.generation,
        key=f"{_PREFIX}{number}",
        kind=StepKind.CHORD,
        status=StepStatus.WAITING,
        created_at=now,
        ordinal=number,
        born=s.run.generation,
        task=call.task,
        args_text=call.args_text,
        spec_text=replace(spec, options=call.options).to_text(),
    )
    return _hear(s.with_step(step), step, signals, now, resend_s)


def observe(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
    """Let the chords of a run see what is in its inbox, before a wait takes it."""
    if not s.inbox:
        return s
    for step in [x for x in s.steps.values() if x.kind is StepKind.CHORD and x.status is StepStatus.WAITING]:
        s = _hear(s, step, s.inbox, now, resend_s)
    return s


def _hear(s: Snapshot, step: StepRecord, signals: Iterable[SignalRecord], now: datetime, resend_s: float) -> Snapshot:
    spec = StepSpec.from_text(step.spec_text)
    assert spec.chord is not None
    heard = dict(spec.chord.heard)
    for signal in signals:
        if signal.error_text is None and signal.name in spec.chord.header:
            heard.setdefault(signal.name, signal.value_text)
    chord = replace(spec.chord, heard=heard)
    if not chord.is_complete:
        spec_text = replace(spec, chord=chord).to_text()
        return s if spec_text == step.spec_text else s.with_step(replace(step, spec_text=spec_text))
    # From here on its arguments hold the values.
    spec_text = replace(spec, chord=replace(chord, heard={})).to_text()
    s = s.move_step(step.key, StepEvent.WOKEN, args_text=_args_text(step, chord), spec_text=spec_text)
    return s.with_step(wakeup.scheduled(s.steps[step.key], now, resend_s))


def _args_text(step: StepRecord, chord: ChordSpec) -> str:
    """The values go first, as a list in the order of the header, unless the signature is immutable."""
    if chord.immutable:
        return step.args_text
    args, kwargs = codec.decode(step.args_text)
    values = [codec.decode(chord.heard[name]) for name in chord.header]
    return codec.encode([[values, *args], kwargs])


def is_under_way(s: Snapshot) -> bool:
    """A chord is complete, and not through."""
    return any(x.kind is StepKind.CHORD and x.status in _UNDER_WAY for x in s.steps.values())


def is_open(step: StepRecord) -> bool:
    """It is a chord that was not executed, for which a new generation of its run goes on waiting."""
    return step.kind is StepKind.CHORD and step.status in (*_UNDER_WAY, StepStatus.WAITING, StepStatus.CANCELLED)


def carried(steps: Iterable[StepRecord], now: datetime, resend_s: float) -> Iterator[StepRecord]:
    """Chords as a new generation has them: what was cancelled waits again, what was to be sent is sent again."""
    again: dict[str, Any] = dict.fromkeys(("seq", "ended_at", "wake_at", "due_at"))
    for step in steps:
        if step.kind is StepKind.CHORD and step.status is StepStatus.CANCELLED:
            yield replace(step, status=StepStatus.WAITING, **again)
        elif step.kind is StepKind.CHORD and step.status is StepStatus.SCHEDULED and step.due_at is None:
            yield wakeup.scheduled(step, now, resend_s)
