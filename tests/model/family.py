"""A parent and its child in one model: two rows of runs, each transaction on one of them, others in between.

Coming to a parent or child takes several transactions, and any other process may come in between two of them; an
attempt of a step and a tick of the sweeper are one move. While somebody is at work the clock stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from celery_saga.core.due import Due, DueKind
from celery_saga.core.focus import Extent, Focus
from celery_saga.core.ports import Change, Loaded, Transition
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine.ports import Message, StepMessage
from tests.model.state import NOW, RUN_ID, Alike, Tables, forget_tables, tables
from tests.model.store import Drawn, ModelStore, Rows, _due, _name


class Family:
    """The tables of both runs; equal ones are one object (`family`)."""

    def __init__(self, *runs: Tables) -> None:
        self.runs = {x.run.id: x for x in runs}

    @property
    def run(self) -> RunRecord:
        return self.runs[RUN_ID].run

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        return self.runs[RUN_ID].steps

    @property
    def child(self) -> RunRecord | None:
        return next((x.run for key, x in self.runs.items() if key != RUN_ID), None)

    def instants(self) -> list[Any]:
        """Every instant ahead at which something may become due."""
        ended = [x.run.wake_at for x in self.runs.values() if x.run.status.is_end]
        return [*(at for x in self.runs.values() for at in x.instants()), *(x for x in ended if x and x > NOW)]

    @property
    def is_due(self) -> bool:
        rows = [x.run.wake_at for x in self.runs.values() if x.run.status is not RunStatus.SUSPENDED]
        return any(map(_due, [*rows, *(step.wake_at for x in self.runs.values() for step in x.steps)]))


_FAMILIES: dict[Any, Family] = {}


def family(runs: Iterable[Rows | Tables], *, later_s: float | None = None) -> Family:
    """The one of this content, `later_s` seconds later in canonical form; None: as it is, for somebody is at work."""
    kept: list[Tables] = []
    for each in runs:
        steps = tuple(each.steps.values()) if isinstance(each, Rows) else each.steps
        kept.append(Tables(each.run, steps, (), ()) if later_s is None else tables(each.run, steps, later_s=later_s))
    return _FAMILIES.setdefault(tuple((x.run, x.steps) for x in kept), Family(*kept))


def forget_families() -> None:
    _FAMILIES.clear()
    forget_tables()


class Note(NamedTuple):
    """A message under way; `step` None: for the run itself."""

    run_id: str
    step: str | None = None
    generation: int = 0

    def __str__(self) -> str:
        who = "parent" if self.run_id == RUN_ID else "child"
        return f"the wake-up of the {who}" if self.step is None else f"the message of {self.step}"


class Work(Alike):
    """Somebody who coordinates a run, after some of his transactions."""

    __slots__ = ("answers", "next_call", "run_id")

    def __init__(self, run_id: str, next_call: str = "load", answers: tuple[Any, ...] = ()) -> None:
        self.run_id, self.next_call, self.answers = run_id, next_call, answers
        super().__init__(run_id, next_call, tuple(map(_print, answers)))

    @property
    def tokens(self) -> list[str]:
        """Those that he has drawn."""
        return [x.token for x in self.answers if isinstance(x, Drawn)]


class FamilyState(NamedTuple):
    """One moment; fields as of `state.State`."""

    tables: Family
    mail: tuple[Note, ...]
    at_work: tuple[Work, ...]
    effects: tuple[str, ...]
    undone: tuple[str, ...]
    events_left: tuple[str, ...]
    faults_left: int

    def __str__(self) -> str:
        text = []
        for who, one in zip(("parent", "child"), self.tables.runs.values(), strict=False):
            steps = [f"{x.key} {x.status}{'' if x.wake_at is None else '*'}" for x in one.steps]
            text.append(f"{who} {one.run.status}{'' if one.run.wake_at is None else '*'} ({', '.join(steps)})")
        text += [f"outside {', '.join(self.effects)}"] if self.effects else []
        text += [f"undone {', '.join(self.undone)}"] if self.undone else []
        return "; ".join(text)


class FamilyStore(ModelStore):
    """Both runs, one transaction at a time.

    Args:
        before: their tables.
        fresh: the next token that is drawn.
    """

    def __init__(
        self, before: Family, answers: Sequence[Any] = (), *, fresh: str = "", calls: int | None = None
    ) -> None:
        super().__init__(before.runs[RUN_ID], answers, calls=calls)
        self.all = {key: Rows(x.run, {s.key: s for s in x.steps}, (), ()) for key, x in before.runs.items()}
        self._fresh = fresh

    def token(self) -> str:
        place = len(self.answers)
        old = self._old_answers
        drawn = old[place] if place < len(old) else Drawn(self._fresh)
        self.answers.append(drawn)
        return str(drawn.token)

    def _of(self, run_id: str, work: Callable[[], Any]) -> Any:
        """The work on the tables of one run; None: there is no such run."""
        if run_id not in self.all:
            return None
        self.rows = self.all[run_id]
        done = work()
        self.all[run_id] = self.rows
        return done

    def load(self, run_id: str, *, extent: Extent = Extent.LIVE, focus: Focus | None = None) -> Any:
        def work() -> Loaded:
            return Loaded(self.rows.snapshot(focus, extent), NOW)

        return self._call("load", lambda: self._of(run_id, work))

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
    ) -> Any:
        return self._call(_name(change), lambda: self._of(run_id, lambda: self._started(self._transact(change, focus))))

    def _started(self, done: Transition) -> Transition:
        for child in done.new.starts:
            self.all.setdefault(child.id, Rows(child, {}, (), ()))
        return done

    def claim(self, run_id: str, generation: int, key: str, **how: Any) -> Any:
        return self._of(run_id, lambda: super(FamilyStore, self).claim(run_id, generation, key, **how))

    def pick_due(self, *, limit: int, hold_s: float) -> list[Due]:
        return [due for run_id in self.all for due in self._of(run_id, partial(self._pick, run_id, hold_s))]

    def _pick(self, run_id: str, hold_s: float) -> list[Due]:
        rows, until, found = self.rows, NOW + timedelta(seconds=hold_s), []
        if _due(rows.run.wake_at) and rows.run.status is not RunStatus.SUSPENDED:
            rows.run = replace(rows.run, wake_at=until, sends=rows.run.sends + 1)
            found.append(Due(DueKind.RUN, run_id, run=rows.run))
        for step in tuple(rows.steps.values()):
            if _due(step.wake_at):
                sends = step.sends + (step.status is not StepStatus.RUNNING)
                rows.steps[step.key] = replace(step, wake_at=until, sends=sends)
                found.append(Due(DueKind.STEP, run_id, step=rows.steps[step.key], run=rows.run))
        return found

    def put_off(self, step: StepRecord, *, delay_s: float) -> None:
        self._of(step.run_id, lambda: self._put_off(step, delay_s))

    def put_off_run(self, run: RunRecord, *, delay_s: float) -> None:
        self._of(run.id, lambda: self._put_off_run(run, delay_s))


class FamilyPublisher:
    """Puts messages under way, except those of calls that were only replayed."""

    def __init__(self, store: FamilyStore) -> None:
        self.sent: list[Note] = []
        self._store = store

    def publish(self, messages: Sequence[Message]) -> int:
        if self._store.has_called:
            self.sent += map(_note, messages)
        return len(messages)

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return 0


def _note(message: Message) -> Note:
    if isinstance(message, StepMessage):
        return Note(message.run.id, message.step.key, message.step.generation)
    return Note(message.run.id)


def _print(answer: Any) -> Any:
    """What there is to remember of an answer."""
    if isinstance(answer, Loaded):
        return _print(answer.snapshot)
    if isinstance(answer, Transition):
        return answer.new is answer.old, _print(answer.new)
    if isinstance(answer, Snapshot):
        return answer.run, tuple(answer.steps.values()), answer.extent
    return answer if answer is None or isinstance(answer, Drawn) else type(answer)
