"""The smallest store and publisher that the engine can work with: one run, immutable tables, one call at a time.

A verb of the engine is executed again from its beginning with the answers that its earlier calls got, makes one more
call, and is left at the next: so any other process may come in between any two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from celery_saga.core import attempts
from celery_saga.core.attempts import Failed, Outcome, Succeeded
from celery_saga.core.due import Due, DueKind
from celery_saga.core.focus import Extent, Focus, Incomplete, region_of
from celery_saga.core.ports import Arrival, Change, Claimed, Loaded, Transition
from celery_saga.core.records import RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine.ports import Message, StepMessage
from celery_saga.errors import StoreUnavailable
from tests.model.state import FRESH, NOW, RUN_ID, Mail, Tables


class Paused(BaseException):
    """The verb stands before this call to the store."""

    def __init__(self, next_call: str) -> None:
        super().__init__(next_call)
        self.next_call = next_call


@dataclass(frozen=True)
class Threw:
    """The answer of a call that raised."""

    error: BaseException


@dataclass(frozen=True)
class Drawn:
    """A token that the verb has drawn; `key`: of the step that it has claimed with it."""

    token: str
    key: str = ""


def holds(answers: Sequence[Any]) -> tuple[Any, ...]:
    """Of a verb that executes steps itself: which one it has claimed last, whether that claim holds, and has acted."""
    for place in reversed(range(len(answers))):
        drawn = answers[place]
        if isinstance(drawn, Drawn) and drawn.key:
            return drawn.key, drawn.token, any(isinstance(x, Succeeded | Failed) for x in answers[place:])
    return ()


@dataclass
class Rows:
    """The tables while an action works on them."""

    run: RunRecord
    steps: dict[str, StepRecord]
    signals: tuple[SignalRecord, ...]
    volatile: tuple[StepRecord, ...]

    def snapshot(self, focus: Focus | None = None, extent: Extent = Extent.ALL) -> Snapshot:
        """As the SQL store loads it: all, what is not folded, or what lies in a focus."""
        inbox = tuple(x for x in self.signals if x.taken_by is None)
        if focus is None and (extent is Extent.ALL or not self.run.folded):
            return Snapshot(self.run, dict(self.steps), inbox)
        live = {key: step for key, step in self.steps.items() if not step.folded}
        if focus is None:
            return Snapshot(self.run, live, inbox, extent=extent)
        seen = {key: step for key, step in live.items() if _is_in(key, focus)}
        busy = any(x.status in _AT_WORK for key, x in live.items() if key not in seen)
        return Snapshot(self.run, seen, inbox, extent=Extent.PART, is_busy_elsewhere=busy)

    def more(self, s: Snapshot, wanted: Incomplete) -> Snapshot:
        """With the step that was missing, or as many as are needed."""
        if wanted.key is None or s.extent is Extent.LIVE:
            return self.snapshot(extent=Extent(max(wanted.extent, Extent.LIVE)))
        step = self.steps.get(wanted.key)
        return self.snapshot(extent=Extent.LIVE) if step is None else s.with_step(step)


_AT_WORK = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.RUNNING)


def _is_in(key: str, focus: Focus) -> bool:
    region = region_of(key)
    return region in focus.regions or key in focus.keys or bool(focus.within and region.startswith(focus.within))


class NobodyWaits:
    """The end of a run is told to nobody."""

    def ring(self, run_id: str, *, elsewhere: bool = True) -> None:
        """Nobody hears it."""


class ModelStore:
    """Implements what the engine calls of the port of a store.

    Args:
        before: the tables.
        answers: what the calls made so far were answered.
        calls: how many more calls may be made; None: any number.
        lose_answer: the first commit lands, but its answer does not arrive.
    """

    def __init__(
        self, before: Tables, answers: Sequence[Any] = (), *, calls: int | None = None, lose_answer: bool = False
    ) -> None:
        self.rows = Rows(before.run, {x.key: x for x in before.steps}, before.signals, before.volatile)
        self.changes: list[tuple[Snapshot, Snapshot]] = []
        self.answers: list[Any] = []
        self.executed: list[StepRecord] = []  # steps that the verb has executed itself, and that have had their effect
        self.after: list[Callable[[], object]] = []  # what a caller's commit is followed by
        self.has_called = False
        self.waiters = NobodyWaits()
        self._old_answers = list(answers)
        self._calls_left = calls
        self._lose_answer = lose_answer

    @property
    def replayed(self) -> int:
        """How many of the answers were given before."""
        return len(self._old_answers)

    def token(self) -> str:
        """A fresh token, except where the verb has drawn it before."""
        place = len(self.answers)
        drawn = self._old_answers[place] if place < len(self._old_answers) else Drawn(FRESH)
        self.answers.append(drawn)
        return str(drawn.token)

    def _call(self, name: str, work: Callable[[], Any]) -> Any:
        place = len(self.answers)
        if place < len(self._old_answers):
            answer = self._old_answers[place]
            self.answers.append(answer)
            if isinstance(answer, Threw):
                raise answer.error
            return answer
        if self._calls_left == 0:
            raise Paused(name)
        if self._calls_left is not None:
            self._calls_left -= 1
        self.has_called = True
        try:
            answer = work()
        except Exception as exc:
            self.answers.append(Threw(exc))
            raise
        self.answers.append(answer)
        return answer

    def execute(self, step: StepRecord, outcome: Outcome) -> Outcome:
        """The verb executes a step itself."""

        def work() -> Outcome:
            self.executed += [step] if isinstance(outcome, Succeeded) else []
            return outcome

        done: Outcome = self._call("execute", work)
        return done

    # -- the port ----------------------------------------------------------------------------------------------
    def now(self) -> datetime:
        return NOW

    def start_run(self, saga: str, make: Callable[[Arrival], Any], **_: Any) -> tuple[Any, bool]:
        return make(Arrival(NOW, is_held_back=False)), True

    def load(self, run_id: str) -> Loaded:
        return self._call("load", lambda: Loaded(self.rows.snapshot(extent=Extent.LIVE), NOW))

    def transact(
        self,
        run_id: str,
        change: Change,
        *,
        focus: Focus | None = None,
        basis: Snapshot | None = None,
        at: datetime | None = None,
        is_blind: bool = True,
        as_stored: bool = False,
    ) -> Transition:
        return self._call(_name(change), lambda: self._transact(change, focus))

    def _transact(self, change: Change, focus: Focus | None) -> Transition:
        old = self.rows.snapshot(focus, Extent.LIVE)
        while True:
            try:
                new = change(old, NOW)
                break
            except Incomplete as more:
                old = self.rows.more(old, more)
        if new is not old and (new.run, new.steps, new.inbox) != (old.run, old.steps, old.inbox):
            new = new.with_run(state_version=old.run.state_version + 1, updated_at=NOW)
            inbox = {x.id: x for x in new.inbox}
            signals = tuple(inbox.get(x.id, x) for x in self.rows.signals)
            others = {} if old.extent is Extent.ALL else self.rows.steps
            before, self.rows = self.rows, Rows(new.run, {**others, **new.steps}, signals, ())
            self.changes.append((before.snapshot(), replace(self.rows.snapshot(), history=new.history)))
        if self._lose_answer:
            self._lose_answer = False
            raise StoreUnavailable("the answer to the commit did not arrive")
        return Transition(old, new, NOW)

    def claim(
        self,
        run_id: str,
        generation: int,
        key: str,
        *,
        token: str,
        owner: str,
        lease_s: float,
        focus: Focus | None = None,
    ) -> Claimed | None:
        rows = self.rows
        step = rows.steps.get(key)
        if (
            step is None
            or generation != rows.run.generation
            or step.status is not StepStatus.SCHEDULED
            or not step.sends
        ):
            return None
        until = NOW + timedelta(seconds=lease_s)
        claimed = replace(
            step,
            status=StepStatus.RUNNING,
            attempt=step.attempt + 1,
            claim_token=token,
            owner=owner,
            lease_until=until,
            wake_at=until,
            started_at=NOW,
        )
        self.changes.append((rows.snapshot(), rows.snapshot().with_step(claimed)))
        rows.steps[key] = claimed
        rows.volatile = (*rows.volatile, step) if attempts.may_claim_asynchronously(step) else ()
        return Claimed(claimed, rows.snapshot(focus, Extent.LIVE), NOW)

    def renew(self, run_id: str, generation: int, key: str, *, token: str, lease_s: float) -> RunRecord | None:
        step = self.rows.steps.get(key)
        if step is None or step.status is not StepStatus.RUNNING or step.claim_token != token:
            return None
        until = NOW + timedelta(seconds=lease_s)
        self.rows.steps[key] = replace(step, lease_until=until, wake_at=until)
        self.rows.volatile = ()
        return self.rows.run

    def put_signal(self, signal: SignalRecord) -> tuple[SignalRecord, bool]:
        return self._call("put_signal", lambda: self._put_signal(signal))

    def _put_signal(self, signal: SignalRecord) -> tuple[SignalRecord, bool]:
        for stored in self.rows.signals:
            if (stored.name, stored.signal_id) == (signal.name, signal.signal_id):
                return stored, False
        stored = replace(signal, id=len(self.rows.signals) + 1)
        self.rows.signals = (*self.rows.signals, stored)
        self.rows.volatile = ()
        return stored, True

    # -- in a transaction of a caller's, which ends with what it inserts ------------------------------------------
    is_open, is_rolled_back = True, False

    def joined(self, connection: Any) -> ModelStore:
        return self

    def after_commit(self, do: Callable[[], object]) -> ModelStore:
        self.after.append(do)
        return self

    def signals(self, run_id: str) -> tuple[SignalRecord, ...]:
        return self.rows.signals  # the last thing that a sender reads: nothing follows from it

    def pick_due(self, *, limit: int, hold_s: float) -> list[Due]:
        return self._call("pick_due", lambda: self._pick_due(hold_s))

    def _pick_due(self, hold_s: float) -> list[Due]:
        rows, until, found = self.rows, NOW + timedelta(seconds=hold_s), []
        run = rows.run
        if _due(run.wake_at) and not run.status.is_end and run.status is not RunStatus.SUSPENDED:
            rows.run = replace(run, wake_at=until, sends=run.sends + 1)
            found.append(Due(DueKind.RUN, RUN_ID, run=rows.run))
        for step in tuple(rows.steps.values()):
            if _due(step.wake_at):
                sends = step.sends + (step.status is not StepStatus.RUNNING)
                rows.steps[step.key] = replace(step, wake_at=until, sends=sends)
                found.append(Due(DueKind.STEP, RUN_ID, step=rows.steps[step.key], run=rows.run))
        if any(_due(x.wake_at) for x in rows.signals):
            rows.signals = tuple(replace(x, wake_at=until) if _due(x.wake_at) else x for x in rows.signals)
            found.append(Due(DueKind.SIGNAL, RUN_ID, run=rows.run))
        if found:
            rows.volatile = ()
        return found

    def put_off(self, step: StepRecord, *, delay_s: float) -> None:
        self._call("put_off", lambda: self._put_off(step, delay_s))

    def _put_off(self, step: StepRecord, delay_s: float) -> None:
        row = self.rows.steps.get(step.key)
        if row is None or row.status not in (StepStatus.SCHEDULED, StepStatus.WAITING):
            return
        if (row.attempt, row.sends) == (step.attempt, step.sends):
            self.rows.steps[step.key] = replace(row, wake_at=NOW + timedelta(seconds=delay_s))
            self.rows.volatile = ()

    def put_off_run(self, run: RunRecord, *, delay_s: float) -> None:
        self._call("put_off_run", lambda: self._put_off_run(run, delay_s))

    def _put_off_run(self, read: RunRecord, delay_s: float) -> None:
        run = self.rows.run
        if (run.state_version, run.sends) != (read.state_version, read.sends):
            return
        if run.wake_at is not None and not run.status.is_end and run.status is not RunStatus.SUSPENDED:
            self.rows.run = replace(run, wake_at=NOW + timedelta(seconds=delay_s))
            self.rows.volatile = ()


class ModelPublisher:
    """Puts messages under way, except those of calls that were only replayed."""

    def __init__(self, store: ModelStore, under_way: int) -> None:
        self.sent: list[Mail] = []
        self._store = store
        self._under_way = under_way

    def publish(self, messages: Sequence[Message]) -> int:
        if self._store.has_called:
            self.sent += map(_mail, messages)
        return len(messages)

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return self._under_way


def _mail(message: Message) -> Mail:
    step = message.step if isinstance(message, StepMessage) else message.part
    return Mail() if step is None else Mail(step.key, step.generation, is_part=step.kind is StepKind.PART)


def _due(wake_at: datetime | None) -> bool:
    return wake_at is not None and wake_at <= NOW


def _name(change: Any) -> str:
    """What a transaction is for: the function that was given to `World.change`, or the one given to the store."""
    free = dict(zip(change.__code__.co_freevars, change.__closure__ or (), strict=True))
    inner = free["event"].cell_contents if "event" in free else change
    return str(inner.__qualname__)
