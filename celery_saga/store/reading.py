"""Reads of one run: its row, its steps, its inbox, its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, Select, Table, Update, and_, bindparam, case, exists, or_, select
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.focus import Extent, Focus, Incomplete
from celery_saga.core.ports import Loaded
from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.stack import TOP, WHOLE
from celery_saga.core.status import StepStatus
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.rows import (
    HISTORY_FIELDS,
    RUN_FIELDS,
    SIGNAL_FIELDS,
    STEP_FIELDS,
    columns,
    history_from,
    run_from,
    signal_from,
    step_from,
)
from celery_saga.store.schema import Schema
from celery_saga.store.session import Rows, Tx
from celery_saga.store.slots import Slots
from celery_saga.store.step_loads import StepLoads

_BIG = frozenset({"input_text"})


@dataclass(frozen=True, slots=True)
class Read:
    """A snapshot as read, and the time of reading."""

    snapshot: Snapshot
    now: datetime


class Reading:
    """Statements that read, built once."""

    def __init__(self, schema: Schema, clock: Clock, database: Database, slots: Slots) -> None:
        self._clock = clock
        self._vault = schema.vault
        run, step, signal, history = schema.run, schema.step, schema.signal, schema.history
        run_columns = columns(run, RUN_FIELDS)
        by_id = run.c.id == bindparam("run_id")
        self._run = select(*run_columns, slots.is_held_back(run.c.saga, run.c.parent_id)).where(by_id)
        self._lock = select(*run_columns, *database.lock_extras()).where(by_id).with_for_update()
        self._lock_version = (
            select(run.c.state_version, clock.now.label("now"), *database.lock_extras()).where(by_id).with_for_update()
        )
        self._run_of_claim = _run_of_claim(schema, database, run_columns, by_id)
        self._schema, self._run_columns = schema, run_columns
        self._no_wait = database.async_commit() if database.writes_together else None
        self._run_small = select(*columns(run, RUN_FIELDS, without=_BIG)).where(by_id)

        untaken = and_(signal.c.run_id == bindparam("run_id"), signal.c.taken_by.is_(None))
        self._loads = StepLoads(schema, clock, database, untaken)
        self._inbox = select(*columns(signal, SIGNAL_FIELDS)).where(untaken).order_by(signal.c.id)
        of_run = step.c.run_id == bindparam("run_id")
        self._all_steps = (
            select(*columns(step, STEP_FIELDS))
            .where(of_run)
            .order_by(step.c.created_at, step.c.place, step.c.generation, step.c.key)
        )
        self._history = (
            select(*columns(history, HISTORY_FIELDS))
            .where(history.c.run_id == bindparam("run_id"), history.c.seq > bindparam("after"))
            .order_by(history.c.seq)
        )
        self._signals = (
            select(*columns(signal, SIGNAL_FIELDS)).where(signal.c.run_id == bindparam("run_id")).order_by(signal.c.id)
        )
        self._now = select(clock.now)

    def now(self, tx: Tx) -> datetime:
        """The database's time."""
        value: datetime = tx.run("read clock", self._now, self._clock.binds()).scalar_one()
        return value

    def lock(self, tx: Tx, run_id: str) -> RunRecord | None:
        """Lock a run's row. The row comes as it is once the lock is held, but nothing else in this statement would."""
        return self.run_in(tx.run("lock run", self._lock, {"run_id": run_id}))

    def lock_version(self, tx: Tx, run_id: str) -> tuple[int, datetime] | None:
        """Lock a run's row; its version, and the time at which the lock was asked for. None: there is no such run."""
        row = tx.run("lock version", self._lock_version, {"run_id": run_id} | self._clock.binds()).one_or_none()
        return None if row is None else (row[0], row[1])

    def run(self, tx: Tx, run_id: str) -> tuple[RunRecord, bool] | None:
        """A run with its input, and whether its saga is held back."""
        row = tx.run("load run", self._run, {"run_id": run_id}).one_or_none()
        return None if row is None else (run_from(row[: len(RUN_FIELDS)]), bool(row[-1]))

    def run_of_claim(self, tx: Tx, run_id: str, generation: int, key: str) -> RunRecord | None:
        """A run with its input; lets the claim commit asynchronously where the step has nothing to undo."""
        wanted = {"run_id": run_id, "generation": generation, "key": key}
        return self.run_in(tx.run("load run", self._run_of_claim, wanted))

    def with_run_of_claim(self, claim: Update) -> Executable | None:
        """A claim, bound as `of_run` and so on, that gives the run of a step it takes; only of runs that need no slot.

        None: the database has no such statement.
        """
        run, step = self._schema.run, self._schema.step
        if self._no_wait is None:
            return None
        free = claim.where(run.c.id == step.c.run_id, run.c.generation == step.c.generation, run.c.admission == "")
        return free.returning(*self._run_columns, case((is_light(step), self._no_wait), else_=None))

    def run_in(self, found: Rows) -> RunRecord | None:
        """The run of a row that begins with its fields; None: there is no row."""
        row = found.one_or_none()
        return None if row is None else run_from(row[: len(RUN_FIELDS)])

    def run_small(self, tx: Tx, run_id: str) -> RunRecord | None:
        """A run without its input."""
        row = tx.run("load run", self._run_small, {"run_id": run_id}).one_or_none()
        return None if row is None else run_from(row)

    def rest(
        self,
        tx: Tx,
        run: RunRecord,
        generation: int | None = None,
        *,
        focus: Focus | None = None,
        extent: Extent = Extent.LIVE,
    ) -> Read:
        """Steps and inbox of a run, with the time of now: those of a focus, or as many as `extent` says."""
        generation = run.generation if generation is None else generation
        wanted: dict[str, Any] = {"run_id": run.id, "generation": generation}
        if extent is Extent.LIVE and not run.folded:
            extent = Extent.ALL  # there is nothing that it would leave out
        statement = self._loads.statement(focus, extent)
        rows = tx.run("load steps", statement, wanted | self._loads.binds(focus) | self._clock.binds()).all()
        now, waiting = rows[0][0], rows[0][1]
        steps = {step.key: step for step in (step_from(row[3:]) for row in rows if row[2] is not None)}
        inbox: tuple[SignalRecord, ...] = ()
        if waiting:
            inbox = tuple(map(signal_from, tx.run("load signals", self._inbox, {"run_id": run.id})))
        snapshot = Snapshot(run=run, steps=steps, inbox=inbox, extent=extent)
        if focus is not None:
            snapshot = self._with_busy(tx, replace(snapshot, extent=Extent.PART), generation)
        return Read(self._with_others(tx, snapshot), now)

    def _with_busy(self, tx: Tx, s: Snapshot, generation: int) -> Snapshot:
        """Of a run that goes forward: whether something that is not here is at work."""
        if s.extent is not Extent.PART or not s.run.status.is_forward:
            return s
        wanted = {"run_id": s.run.id, "generation": generation, "keys": list(s.steps) or [""]}
        others = tx.run("look for work", self._loads.busy, wanted).first()
        return replace(s, is_busy_elsewhere=others is not None)

    def _with_others(self, tx: Tx, s: Snapshot) -> Snapshot:
        """Of a run that needs slots: whether something that is not here is active."""
        if s.extent is not Extent.PART or not s.run.admission:
            return s
        wanted = {"run_id": s.run.id, "generation": s.run.generation, "keys": list(s.steps) or [""]}
        active = tx.run("look for what is active", self._loads.active, wanted).first()
        return replace(s, is_active_elsewhere=active is not None)

    def with_inbox(self, tx: Tx, s: Snapshot) -> Snapshot:
        """The same with the signals that nobody has taken."""
        return s.with_inbox(tuple(map(signal_from, tx.run("load signals", self._inbox, {"run_id": s.run.id}))))

    def more(self, tx: Tx, read: Read, wanted: Incomplete) -> Read:
        """The same with the one step that was missing, or with as many steps as are needed."""
        s = read.snapshot
        if wanted.stacks and s.extent is not Extent.ALL:
            return replace(read, snapshot=self._with_stacks(tx, s, wanted.stacks))
        if wanted.key is None or s.extent is Extent.LIVE:
            return self.rest(tx, s.run, extent=Extent(max(wanted.extent, Extent.LIVE)))
        of_key = {"run_id": s.run.id, "generation": s.run.generation, "key": wanted.key}
        row = tx.run("load step", self._loads.one, of_key).one_or_none()
        if row is None:
            return self.rest(tx, s.run, extent=Extent.LIVE)
        step = step_from(row)
        return replace(read, snapshot=self._with_others(tx, s.with_step(step)))

    def _with_stacks(self, tx: Tx, s: Snapshot, prefixes: tuple[str, ...]) -> Snapshot:
        """The same with the tops of these stacks."""
        of_run = {"run_id": s.run.id, "generation": s.run.generation}
        for prefix in prefixes:
            binds = of_run if prefix == WHOLE else of_run | self._loads.stack_binds(prefix)
            found = [step_from(row) for row in tx.run("load stack", self._loads.stack[prefix == WHOLE], binds)]
            top = sum(1 for step in found if step.status.is_end and step.kind is not StepKind.UNDO)
            fresh = {step.key: step for step in found if step.key not in s.steps}
            s = replace(s.with_steps(fresh), stacks={**s.stacks, prefix: top >= TOP})
        return self._with_others(tx, self._with_busy(tx, s, s.run.generation))

    def load(
        self,
        tx: Tx,
        run_id: str,
        generation: int | None,
        extent: Extent = Extent.LIVE,
        focus: Focus | None = None,
    ) -> Loaded | None:
        """A run with its steps and inbox, without a lock: the run first, so that its version is never too new."""
        found = self.run(tx, run_id)
        if found is None:
            return None
        run, is_held_back = found
        read = self.rest(tx, run, generation, focus=focus, extent=extent)
        is_held_back = is_held_back and not run.admission
        return Loaded(read.snapshot, read.now, self._vault.trouble, is_held_back)

    def steps(self, tx: Tx, run_id: str, *, all_generations: bool) -> list[StepRecord]:
        """Steps in order of creation."""
        if all_generations:
            return [step_from(row) for row in tx.run("load steps", self._all_steps, {"run_id": run_id})]
        run = self.run_small(tx, run_id)
        return [] if run is None else list(self.rest(tx, run, extent=Extent.ALL).snapshot.steps.values())

    def status_of(self, tx: Tx, run_id: str, generation: int, key: str) -> StepStatus | None:
        """The status of one step."""
        wanted = {"run_id": run_id, "generation": generation, "key": key}
        status = tx.run("read status", self._loads.status, wanted).scalar_one_or_none()
        return None if status is None else StepStatus(status)

    def history(self, tx: Tx, run_id: str, after: int) -> list[HistoryRecord]:
        """History rows above `after`, in order."""
        rows: Iterable[Any] = tx.run("load history", self._history, {"run_id": run_id, "after": after})
        return [history_from(row) for row in rows]

    def signals(self, tx: Tx, run_id: str) -> list[SignalRecord]:
        """All signals of a run, taken ones too."""
        return [signal_from(row) for row in tx.run("load signals", self._signals, {"run_id": run_id})]


def _run_of_claim(
    schema: Schema, database: Database, run_columns: list[ColumnElement[Any]], by_id: ColumnElement[bool]
) -> Select[Any]:
    """The run of a claim; where the database can, the claim of a step with nothing to undo commits asynchronously."""
    step, no_wait = schema.step, database.async_commit()
    if no_wait is None:
        return select(*run_columns).where(by_id)
    light = exists().where(
        step.c.run_id == bindparam("run_id"),
        step.c.generation == bindparam("generation"),
        step.c.key == bindparam("key"),
        is_light(step),
    )
    return select(*run_columns, case((light, no_wait), else_=None)).where(by_id)


def is_light(step: Table) -> ColumnElement[bool]:
    """As core.attempts.may_claim_asynchronously; the options themselves no statement can look into."""
    is_forward = or_(step.c.kind == StepKind.STEP.value, step.c.kind == StepKind.PART.value)
    return and_(is_forward, step.c.undoable.is_(False))
