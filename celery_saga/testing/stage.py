"""Plays one run of a rehearsal to its end, and says what it left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from celery_saga.core import codec
from celery_saga.core.headers import missing
from celery_saga.core.orders import StepSpec
from celery_saga.core.records import Action, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.definition.saga import Saga
from celery_saga.errors import IllegalTransition
from celery_saga.testing.call import Call
from celery_saga.testing.future import live_runs
from celery_saga.testing.handle import LabHandle
from celery_saga.testing.lab import Lab
from celery_saga.testing.ledger import is_as, read
from celery_saga.testing.replays import Parting, Replays
from celery_saga.testing.trouble import Crash, Failing

__all__ = ["Played", "Stage"]

_MOST_TURNS = 1000


@dataclass(frozen=True)
class Played:
    """One run, and what it left.

    Args:
        handle: of the run.
        status: how it ended, or what it is.
        before, after: what the ledger said.
        calls: of tasks, in order.
        commits: how many there were.
        parting: where its body was not deterministic.
        stuck: why it did not end.
        note: what was done to bring it to its end.
    """

    handle: LabHandle[Any]
    status: str
    before: Any
    after: Any
    calls: tuple[Call, ...]
    commits: int
    parting: Parting | None
    stuck: str | None
    note: str | None


class Stage:
    """Where the runs of one rehearsal are played; parameters as of `rehearse`."""

    def __init__(
        self,
        lab: Lab,
        saga: Saga[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        signals: dict[str, Any],
        ledger: Callable[[], Any] | None,
        reset: Callable[[], object] | None,
    ) -> None:
        self._lab = lab
        self._saga = saga
        self._args, self._kwargs = args, kwargs
        self._signals = signals
        self._ledger = ledger
        self._reset = reset
        self._count = 0
        self._key: str | None = None
        self._replays = Replays(lab.registry)

    def play(self, *, failing: Failing | None = None, crash: Crash | None = None, is_watched: bool = True) -> Played:
        """Start a run and bring it to its end.

        Args:
            failing: a step that fails in it.
            crash: a point at which its worker dies.
            is_watched: its decisions are replayed afterwards.
        """
        if self._reset is not None:
            self._reset()
        before = read(self._ledger)
        troubles = self._lab.troubles
        called, committed = len(troubles.calls), troubles.commits
        troubles.failing[:] = [] if failing is None else [failing]
        troubles.crashes[:] = [] if crash is None else [crash]
        self._lab.registry.watch = self._replays.watch if is_watched else None
        try:
            handle = self._lab.start(self._next_saga(), *self._args, **self._kwargs)
            stuck, note = self._to_the_end(handle)
        finally:
            self._lab.registry.watch = None
            troubles.failing.clear()
            troubles.crashes.clear()
        after = read(self._ledger)
        parting = self._replays.parting()
        calls, commits = tuple(troubles.calls[called:]), troubles.commits - committed
        status = handle.refresh().status.value
        self._key = handle.key if self._key is None else self._key
        return Played(handle, status, before, after, calls, commits, parting, stuck, note)

    def put_back(self, played: Played) -> None:
        """Undo what a completed run did, where nothing else puts the world back."""
        if self._reset is None and played.status == RunStatus.COMPLETED:
            try:
                played.handle.compensate(reason="the rehearsal goes on")
            except IllegalTransition:
                return  # not to be had, as behind a pivot
            self._to_the_end(played.handle)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Lines on which the body reads a clock or draws at random by itself."""
        return tuple(self._replays.doubts)

    # -- what is wrong -------------------------------------------------------------------------------------------
    def leftovers(self, played: Played) -> str | None:
        """What is wrong with how a run ended, on its own; None: nothing."""
        if played.stuck is not None:
            return f"it does not end: {played.stuck}"
        if played.status == RunStatus.COMPENSATION_FAILED:
            return f"an undo of it failed: {self._undo_error(played)}"
        if played.status == RunStatus.COMPLETED or played.before == played.after:
            return None
        return (
            f"it {played.status}, so nothing of it should be left, but the ledger says {played.after!r}, and said "
            f"{played.before!r} before{self._why(played)}"
        )

    def strays(self, played: Played, model: Played) -> str | None:
        """What is different from a run that went the same way undisturbed; None: nothing."""
        if played.status != model.status:
            error = played.handle.error
            advice = "" if self._reset is not None else ". If the world was not as it was before, give reset="
            return f"it {played.status} ({error!r}), and without that it {model.status}{advice}"
        if played.status != RunStatus.COMPLETED or is_as(played.before, played.after, (model.before, model.after)):
            return None
        return (
            f"it completed, but the ledger went from {played.before!r} to {played.after!r}; in the undisturbed run it "
            f"went from {model.before!r} to {model.after!r}{self._why(played)}"
        )

    def _why(self, played: Played) -> str:
        """What may be the reason: steps without undo, and calls that were repeated."""
        done = (StepStatus.DONE, StepStatus.FAILED, StepStatus.LOST)
        bare = [
            step.key
            for step in played.handle.steps()
            if step.kind is StepKind.STEP
            and step.status in done
            and (step.status is StepStatus.DONE or step.maybe)
            and StepSpec.from_text(step.spec_text).undo is None
        ]
        times = Counter((call.step, call.idempotency_key) for call in played.calls)
        repeated = [f"{step} ({count} times)" for (step, _), count in times.items() if count > 1]
        said = ""
        if bare and played.status != RunStatus.COMPLETED:
            said += f". Without undo: {', '.join(bare)}"
        if repeated:
            said += f". Called again with the same idempotency key: {', '.join(repeated)}"
        return said

    def _undo_error(self, played: Played) -> str:
        failed = (x for x in played.handle.steps() if x.kind is StepKind.UNDO and x.error is not None)
        return ", ".join(f"{x.key}: {'' if x.error is None else x.error.message}" for x in failed)

    # -- inside --------------------------------------------------------------------------------------------------
    def _next_saga(self) -> Saga[..., Any]:
        """With a key of its own for each run but the first."""
        self._count += 1
        if self._key is None:
            return self._saga
        return self._saga.options(key=f"{self._key[:240]}~{self._count}")

    def _to_the_end(self, handle: LabHandle[Any]) -> tuple[str | None, str | None]:
        """Why it did not get there, and what was done to get it there."""
        note = None
        for _ in range(_MOST_TURNS):
            self._lab.drain()
            status = handle.refresh().status
            if status.is_end:
                return None, note
            if status is RunStatus.SUSPENDED:
                if (note := self._decide_for_a_person(handle)) is None:
                    return self._parked(handle), None
                continue
            if not self._send() and not self._lab.hop():
                waits = ", ".join(each.name for each in handle.waiting_on)
                return f"it waits for {waits or 'nothing'} without time-out. Give signals={{...}}", note
        return f"it is still {handle.status.value} at {self._lab.now}", note

    def _send(self) -> bool:
        """Send what runs wait for; whether there was any."""
        sent = False
        for run in live_runs(self._lab.engine.store):
            handle = self._lab.get(run.id)
            for step in handle.steps():
                if step.kind is StepKind.SIGNAL and step.status is StepStatus.WAITING:
                    sent = self._answer(handle, step) or sent
        return sent

    def _answer(self, handle: LabHandle[Any], wait: StepRecord) -> bool:
        """Send what this wait still misses, until it has enough; whether there was any."""
        sent = False
        name = f"rehearsal:{wait.generation}:{wait.key}"[:200]
        for signal in missing(wait, self._lab.engine.store.signals(handle.id)):
            if signal not in self._signals:
                continue
            value = self._signals[signal]
            is_error = isinstance(value, BaseException)
            how = handle.signal(signal, id=name, error=value) if is_error else handle.signal(signal, value, id=name)
            sent = True
            if how == "delivered":
                break
        return sent

    def _decide_for_a_person(self, handle: LabHandle[Any]) -> str | None:
        """What a person does to a run that waits for one by its definition; None: it is parked for something else."""
        parked = [row for row in handle.history() if row.action is Action.PARK]
        reason, _, _ = ((parked[-1].detail or "") if parked else "").partition(":")
        if reason == "on_failure":
            handle.compensate(reason="the rehearsal goes on")
            return "a person has to say whether it is undone (on_failure='suspend')"
        if reason == "pivot":
            handle.resume(reason="the rehearsal goes on")
            return "behind the pivot nothing is undone: a person has to see to it, and to resume the run"
        if reason != "undo_unknown":
            return None
        key = parked[-1].step or ""
        step = next(x for x in handle.steps() if x.key == key)
        undo, value = StepSpec.from_text(step.spec_text).undo, self._lab.troubles.returned.get((handle.id, key))
        assert undo is not None
        args, kwargs = codec.decode(undo.call.args_text)
        handle.retry_undo(key, args=[value, *args], kwargs=dict(kwargs), reason="the rehearsal knows its result")
        return (
            f"when the outcome of {key} is unknown, a person has to say what {undo.call.task} gets: it does not take "
            "None"
        )

    def _parked(self, handle: LabHandle[Any]) -> str:
        rows: Iterable[Any] = (row for row in handle.history() if row.action is Action.PARK)
        return f"it is parked ({', '.join(str(row.detail) for row in rows)})"
