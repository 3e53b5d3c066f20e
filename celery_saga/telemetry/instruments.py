"""Counters and histograms, moved where things happen: in the process that commits them."""

from __future__ import annotations

from celery_saga.core.ports import Transition
from celery_saga.core.records import Action, StepKind, StepRecord
from celery_saga.telemetry import names

__all__ = ["Instruments"]

_OUTCOMES = {Action.OK: "ok", Action.FAIL: "failed", Action.TIMEOUT: "timeout"}
_ENDS = frozenset({*_OUTCOMES, Action.LOST})
_TASKS = frozenset({StepKind.STEP.value, StepKind.UNDO.value, StepKind.CHORD.value})


class Instruments:
    """Those of one process; made once a meter provider is set."""

    def __init__(self) -> None:
        from opentelemetry import metrics  # noqa: PLC0415  # optional

        meter = metrics.get_meter(names.SCOPE)
        self._ended = meter.create_counter(names.ENDED, "{run}", "Runs that have ended, by saga and status.")
        self._duration = meter.create_histogram(names.DURATION, "s", "From the start of a run to its end.")
        self._attempts = meter.create_counter(names.ATTEMPTS, "{attempt}", "Attempts of steps that have ended.")
        self._step_duration = meter.create_histogram(names.STEP_DURATION, "s", "Of an attempt, in its worker.")
        self._undos = meter.create_counter(names.UNDOS, "{undo}", "Undos that are over, by outcome.")
        self._stalls = meter.create_counter(names.STALLED, "{attempt}", "Attempts that ended unseen.")

    def changed(self, done: Transition) -> None:
        """What a committed transition counts."""
        old, new = done.old, done.new
        for row in new.history[len(old.history) :]:
            step = new.steps.get(row.step or "")
            if step is not None and row.action in _ENDS and row.kind in _TASKS and row.attempt is not None:
                self._ended_attempt(new.run.saga, step, row.action)
        if new.run.status.is_end and new.run.status is not old.run.status:
            told = {names.SAGA: new.run.saga, names.RUN_STATUS: new.run.status.value}
            self._ended.add(1, told)
            ended_at = new.run.ended_at or done.now
            self._duration.record(max(0.0, (ended_at - new.run.created_at).total_seconds()), told)

    def _ended_attempt(self, saga: str, step: StepRecord, action: Action) -> None:
        """Stalls are counted at the end of their step: it is a sweeper that notices them, and few of those count."""
        task = {names.SAGA: saga, names.TASK: step.task}
        told = {**task, names.KIND: step.kind.value}
        if action in _OUTCOMES:
            self._attempts.add(1, {**told, names.OUTCOME: _OUTCOMES[action]})
        if not step.status.is_end:
            return
        if step.stalls:
            self._attempts.add(step.stalls, {**told, names.OUTCOME: "lost"})
            self._stalls.add(step.stalls, task)
        if step.kind is StepKind.UNDO:
            outcome = "done" if action is Action.OK else "failed"
            self._undos.add(1, {names.SAGA: saga, names.OUTCOME: outcome})

    def executed(self, saga: str, task: str, kind: str, outcome: str, duration_s: float) -> None:
        """An attempt has ended in this process."""
        told = {names.SAGA: saga, names.TASK: task, names.KIND: kind, names.OUTCOME: outcome}
        self._step_duration.record(duration_s, told)
