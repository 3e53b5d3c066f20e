"""One transition: lock the run, load it, change it, write what changed, each row guarded by what was read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Table, Text, Update, bindparam, insert, select, type_coerce, update

from celery_saga.core.focus import Focus, Incomplete
from celery_saga.core.ports import Change, Transition
from celery_saga.core.records import RunRecord, SignalRecord, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.store.dialects import Database
from celery_saga.store.diff import Writes, writes_between
from celery_saga.store.outbox import OutboxRows
from celery_saga.store.reading import Reading
from celery_saga.store.rows import HISTORY_FIELDS, RUN_FIELDS, placed, plain, values_of, with_undoable
from celery_saga.store.schema import Schema
from celery_saga.store.session import GuardMissed, Tx
from celery_saga.store.slots import Slots
from celery_saga.store.tags import Tags
from celery_saga.store.together import Guarded, Together, guards

PLACES = 24  # bits: how many steps one transition may add, each in its place
_LOADS = 10
_AT_A_TIME = 500
FEW = 4
"""Rows beside the run's that are written with it in one statement: a step, what follows it, and their history."""


class Transitions:
    """Statements that write a transition; an UPDATE is built once for each set of columns that ever changed."""

    def __init__(self, schema: Schema, reading: Reading, database: Database, outbox: OutboxRows, slots: Slots) -> None:
        self._reading, self._outbox, self._slots = reading, outbox, slots
        self._vault = schema.vault
        self._run, self._step, self._signal, self._history = schema.run, schema.step, schema.signal, schema.history
        self._writes_together, self._together = database.writes_together, Together()
        self._tags = Tags(schema, database)
        self._insert_run = database.insert_unless_there(schema.run)
        self._insert_step = insert(schema.step)
        self._insert_history = insert(schema.history)
        self._fold_steps = (
            update(schema.step)
            .where(
                schema.step.c.run_id == bindparam("of_run"),
                schema.step.c.generation == bindparam("of_generation"),
                schema.step.c.key.in_(bindparam("keys", expanding=True)),
            )
            .values(folded=True)
        )
        self._raw_input = select(type_coerce(schema.run.c.input_text, Text)).where(
            schema.run.c.id == bindparam("run_id")
        )
        self._built: dict[tuple[Any, ...], Update] = {}

    def transact(
        self,
        tx: Tx,
        run_id: str,
        change: Change,
        focus: Focus | None = None,
        basis: Snapshot | None = None,
        *,
        as_stored: bool = False,
    ) -> Transition | None:
        """The whole transition, without the commit.

        Raises:
            GuardMissed: a row was claimed, renewed or changed meanwhile; roll back and do it again.
            Carry: a text is to be put or fetched first; roll back, carry, and do it again.
            PayloadUnreadable: something of the run cannot be read, and not `as_stored`; roll back.
        """
        changed = None if basis is None else self._changed_from(tx, basis, change)
        if changed is None:
            run = self._reading.lock(tx, run_id)
            if run is None:
                tx.discard()
                return None
            changed = self._changed(tx, run, change, focus, None if as_stored else f"run {run_id!r}")
        old, new, now = changed
        writes = Writes() if new is old else writes_between(old, new)
        if not writes:
            tx.discard()
            return Transition(old, new, now)
        self._vault.put_first(writes.large_texts())
        new = new.with_run(state_version=old.run.state_version + 1, updated_at=now)
        of_run = writes.run | {"state_version": new.run.state_version, "updated_at": now}
        if self._writes_together and not writes.started and len(writes) <= FEW:
            self._write_together(tx, old.run, of_run, writes)
        else:
            self._write_run(tx, old.run, of_run)
            for step, changes in writes.changed:
                self._write_step(tx, step, changes)
            self._insert(tx, writes, old.run.state_version << PLACES)
        self._slots.start(tx, writes.started, now)
        if writes.folded:
            self._fold(tx, old.run, writes.folded)
        for signal, changes in writes.signals:
            self._write_signal(tx, signal, changes)
        done = Transition(old, new, now, self._slots.follow(tx, old.run, new, now))
        self._outbox.changed(tx, done)
        return done

    def _changed_from(self, tx: Tx, basis: Snapshot, change: Change) -> tuple[Snapshot, Snapshot, datetime] | None:
        """The same without loading anything; None: the run has moved since, or more of it is needed."""
        locked = self._reading.lock_version(tx, basis.run.id)
        if locked is None or locked[0] != basis.run.state_version:
            return None
        try:
            return basis, change(basis, locked[1]), locked[1]
        except Incomplete:
            return None

    def _changed(
        self, tx: Tx, run: RunRecord, change: Change, focus: Focus | None, what: str | None
    ) -> tuple[Snapshot, Snapshot, datetime]:
        """What the run was, what it becomes, and when; with as many of its steps as the change needs.

        Args:
            what: how errors call the run; None: it is changed although something of it cannot be read.
        """
        read = self._reading.rest(tx, run, focus=focus)
        for _ in range(_LOADS):
            self._vault.check(what)
            try:
                return read.snapshot, change(read.snapshot, read.now), read.now
            except Incomplete as more:
                read = self._reading.more(tx, read, more)
        self._vault.check(what)
        return read.snapshot, change(read.snapshot, read.now), read.now

    def _fold(self, tx: Tx, run: RunRecord, keys: list[str]) -> None:
        """In one statement for many: nothing but this ever changes a step that has ended."""
        for first in range(0, len(keys), _AT_A_TIME):
            wanted = {"of_run": run.id, "of_generation": run.generation, "keys": keys[first : first + _AT_A_TIME]}
            tx.run("fold steps", self._fold_steps, wanted)

    def _insert(self, tx: Tx, writes: Writes, last_place: int) -> None:
        if writes.started:
            runs = [values_of(run, RUN_FIELDS) for run in writes.started]
            tx.run("insert children", self._insert_run, runs[0] if len(runs) == 1 else runs)
            self._outbox.started(tx, writes.started)
            self._tags.insert(tx, writes.started)
        if writes.added:
            rows = [placed(step, last_place + number) for number, step in enumerate(writes.added, start=1)]
            tx.run("insert steps", self._insert_step, rows[0] if len(rows) == 1 else rows)
        if writes.history:
            rows = [values_of(row, HISTORY_FIELDS) for row in writes.history]
            tx.run("insert history", self._insert_history, rows[0] if len(rows) == 1 else rows)

    def _write_together(self, tx: Tx, old: RunRecord, run: dict[str, Any], writes: Writes) -> None:
        """The run and the few steps and history rows of an ordinary transition, in one statement."""
        self._look_where_the_input_is(tx, old, run)
        changed = [Guarded(self._run, run, _of_run(old))]
        changed += [Guarded(self._step, with_undoable(changes), _of_step(step)) for step, changes in writes.changed]
        first = (old.state_version << PLACES) + 1
        added = [(self._step, placed(step, number)) for number, step in enumerate(writes.added, start=first)]
        added += [(self._history, values_of(row, HISTORY_FIELDS)) for row in writes.history]
        binds = self._together.binds(changed, added)
        counts = tx.run("change rows", self._together.statement(changed, added), binds).one()
        if not all(counts):
            raise GuardMissed(f"change rows: {[each.guard for each in changed]!r} are no longer so")

    def _write_run(self, tx: Tx, run: RunRecord, changes: dict[str, Any]) -> None:
        self._look_where_the_input_is(tx, run, changes)
        self._update(tx, "update run", self._run, changes, _of_run(run))

    def _look_where_the_input_is(self, tx: Tx, run: RunRecord, changes: dict[str, Any]) -> None:
        if "input_text" in changes and self._vault.offload is not None:
            self._vault.replaced(tx.run("look where the input is", self._raw_input, {"run_id": run.id}).scalar_one())

    def _write_step(self, tx: Tx, step: StepRecord, changes: dict[str, Any]) -> None:
        self._update(tx, "update step", self._step, with_undoable(changes), _of_step(step))

    def _write_signal(self, tx: Tx, signal: SignalRecord, changes: dict[str, Any]) -> None:
        self._update(tx, "update signal", self._signal, changes, {"id": signal.id, "taken_by": None})

    def _update(self, tx: Tx, label: str, table: Table, changes: dict[str, Any], guard: dict[str, Any]) -> None:
        statement = self._statement(table, changes, guard)
        params = {f"new_{name}": value for name, value in changes.items()}
        params |= {f"old_{name}": value for name, value in guard.items() if value is not None}
        if tx.run(label, statement, params).rowcount != 1:
            raise GuardMissed(f"{label}: {guard!r} is no longer so")

    def _statement(self, table: Table, changes: dict[str, Any], guard: dict[str, Any]) -> Update:
        shape = (table.name, tuple(changes), tuple((name, value is None) for name, value in guard.items()))
        statement = self._built.get(shape)
        if statement is None:
            new = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in changes}
            statement = update(table).where(*guards(table, guard, "old_")).values(new)
            self._built[shape] = statement
        return statement


def _of_run(run: RunRecord) -> dict[str, Any]:
    return {"id": run.id, "state_version": run.state_version}


def _of_step(step: StepRecord) -> dict[str, Any]:
    """Claims and renewals do not take the run's lock: these columns show that none came in between."""
    return {
        "run_id": step.run_id,
        "generation": step.generation,
        "key": step.key,
        "status": plain(step.status),
        "claim_token": step.claim_token,
        "lease_until": step.lease_until,
    }
