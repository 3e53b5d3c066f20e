"""The quick ways of PostgreSQL: a claim, and the checkpoint that rests on it, each as one statement and one round trip.

Each says None where it does not apply, or where something is no longer as it was read; nothing is written then, and
the same is done in a transaction of the usual kind, which finds out what there is to say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import Executable, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.attempts import may_claim_asynchronously
from celery_saga.core.focus import Extent, Incomplete, region_of
from celery_saga.core.moments import Moment, moved
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Change as Event
from celery_saga.core.ports import Claimed, Loaded, Transition
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.core.unreadable import Unreadable
from celery_saga.core.waits import next_tick
from celery_saga.store.at_once import AtOnce, Change, Prepared, When
from celery_saga.store.dialects import Trouble
from celery_saga.store.diff import Writes, writes_between
from celery_saga.store.outbox import OutboxRows
from celery_saga.store.parts import Parts
from celery_saga.store.ready import Ready
from celery_saga.store.remembered import Remembered
from celery_saga.store.rows import HISTORY_FIELDS, STEP_FIELDS, has_undo, history_values, step_values, with_undoable
from celery_saga.store.session import Sessions
from celery_saga.store.transact import FEW, PLACES

__all__ = ["Quick"]

_OF_RUN = ("id", "state_version")
_OF_CLAIM = ("run_id", "generation", "key", "status", "claim_token")
_OF_STEP = (*_OF_CLAIM, "lease_until")
_of_claim, _of_step = attrgetter(*_OF_CLAIM), attrgetter(*_OF_STEP)

_STEP = (*STEP_FIELDS, "place", "region", "undoable")
_FIXED = {
    **dict.fromkeys(("failures", "stalls", "join_total", "join_left", "join_next"), "0"),
    **dict.fromkeys(("maybe", "folded", "undoable"), "false"),
    **dict.fromkeys(("scope", "region"), "''"),
}
_zeros_of = itemgetter(*(_STEP.index(name) for name in _FIXED))
_ZEROS = tuple({"0": 0, "false": False, "''": ""}[sql] for sql in _FIXED.values())
_REST = tuple(name for name in _STEP if name not in _FIXED)
_rest_of = itemgetter(*(_STEP.index(name) for name in _REST))


class _Unsure(Exception):  # noqa: N818 - not an error: it is found out in the usual way
    """The answer of the database was lost: it may have been committed."""


class Quick:
    """Statements that are transactions of their own, on connections of the store's own.

    Each answers with what was done, or None, and whether it may be committed nevertheless.

    Args:
        announced: what is to be announced is written in the usual way.
        nobody_listens: as of `Waiters`.
    """

    def __init__(
        self, sessions: Sessions, parts: Parts, announced: OutboxRows, nobody_listens: ColumnElement[bool] | None = None
    ) -> None:
        self._sessions, self._parts, self._announced = sessions, parts, announced
        self._schema, self._database = parts.schema, parts.database
        self._at_once = AtOnce(parts, nobody_listens)
        self._ready: dict[Executable, Ready] = {}
        self._prepared: dict[Hashable, Prepared] = {}
        self._remembered = Remembered()

    # -- a claim -------------------------------------------------------------------------------------------------
    def claim(
        self, run_id: str, generation: int, key: str, *, token: str, owner: str, lease_s: float
    ) -> tuple[Claimed | None, bool]:
        """As of the store, of a run that needs no slot; with all its steps that are not folded."""
        try:
            return self._claimed(run_id, generation, key, token=token, owner=owner, lease_s=lease_s), False
        except _Unsure:
            return None, True

    def _claimed(self, run_id: str, generation: int, key: str, **how: Any) -> Claimed | None:
        if not self._schema.vault.is_plain:
            return None  # what cannot be read is found out before the claim is committed
        known = self._remembered.get(run_id)
        values = self._parts.claim_at_once.binds(run_id, generation, key, known=known, **how)

        rows = self._run("claim at once", lambda: self._made_ready(self._parts.claim_at_once.statement, values))
        if not rows:
            return None
        if any(isinstance(value, Unreadable) for row in rows for value in row):
            self._sessions.write(
                "give back", lambda tx: tx.run("give back", self._parts.claim_at_once.give_back, values)
            )
            return None
        claimed, has_signals = self._parts.claim_at_once.claimed(key, rows, known)
        self._remembered.keep(claimed.snapshot)
        if not has_signals:
            return claimed
        snapshot = self._sessions.read("claim", lambda tx: self._parts.reading.with_inbox(tx, claimed.snapshot))
        return replace(claimed, snapshot=snapshot)

    # -- a load --------------------------------------------------------------------------------------------------
    def load(self, run_id: str) -> tuple[Loaded | None, bool]:
        """As of the store, with all its steps that are not folded; and whether that is known, None as well."""
        if not self._schema.vault.is_plain:
            return None, False
        try:
            rows = self._run(
                "load at once",
                lambda: self._made_ready(self._parts.load_at_once.statement, self._parts.load_at_once.binds(run_id)),
            )
        except _Unsure:
            return None, False
        if not rows:
            return None, rows is not None
        if any(isinstance(value, Unreadable) for row in rows for value in row):
            return None, False
        snapshot, now, has_signals, is_held_back = self._parts.load_at_once.loaded(rows)
        if has_signals:
            known = snapshot
            snapshot = self._sessions.read("load", lambda tx: self._parts.reading.with_inbox(tx, known))
        return Loaded(snapshot, now, is_held_back=is_held_back), True

    # -- a transition --------------------------------------------------------------------------------------------
    def transact(self, basis: Snapshot, change: Event, at: datetime) -> tuple[Transition | None, bool]:
        """As of the store, on this basis, and worked out at this time.

        Raises:
            Exception: whatever `change` raises; nothing was written.
        """
        try:
            return self._transacted(basis, change, at), False
        except _Unsure:
            return None, True

    def _transacted(self, basis: Snapshot, change: Event, at: datetime) -> Transition | None:
        if self._schema.vault.offload is not None or self._announced.wanted is not None or basis.run.admission:
            return None
        now = Moment.about(at)
        try:
            new = change(basis, now)
        except Incomplete:
            return None
        writes = Writes() if new is basis else writes_between(basis, new)
        if not writes or not _is_plain(writes) or new.run.admission:
            return None
        new = new.with_run(state_version=basis.run.state_version + 1, updated_at=now)
        ends = new.run.status.is_end and not basis.run.status.is_end
        when = When(now, next_tick(basis), len(basis.inbox), is_light=_may_be_lost(writes), is_end=ends)
        answer = self._written(self._changes(basis, new, writes), when)
        if not answer:
            return None
        told: datetime = answer[0][0]
        new = _settled(basis, new, now, told)
        if new.extent is not Extent.PART:
            self._remembered.keep(new)
        return Transition(basis, new, told, is_private=ends and answer[0][-1] is True)

    def _written(self, rows: Sequence[Change], when: When) -> Sequence[list[Any]] | None:
        """The row of its statement; none where nothing was written."""
        shape, flat = self._at_once.flat(rows, when)

        def ready() -> tuple[Ready, Sequence[Any]]:
            made = self._prepared.get(shape)
            if made is None:
                self._sessions.prepare()
                made = self._prepared[shape] = self._at_once.prepared(rows, when, self._sessions.engine.dialect)
            return made.ready, made.bound(flat, when.now)

        return self._run("write at once", ready)

    def _changes(self, old: Snapshot, new: Snapshot, writes: Writes) -> list[Change]:
        schema = self._schema
        run = writes.run | {"state_version": new.run.state_version, "updated_at": new.run.updated_at}
        rows = [Change(schema.run, tuple(run), tuple(run.values()), _OF_RUN, (old.run.id, old.run.state_version))]
        for step, changed in writes.changed:
            # Under its own token: renewals have only moved its lease.
            guard, was = (_OF_CLAIM, _of_claim) if step.claim_token is not None else (_OF_STEP, _of_step)
            changes = with_undoable(changed)
            rows.append(Change(schema.step, tuple(changes), tuple(changes.values()), guard, was(step)))
        first = (old.run.state_version << PLACES) + 1
        rows += [_added(schema.step, step, place) for place, step in enumerate(writes.added, start=first)]
        return rows + [Change(schema.history, HISTORY_FIELDS, history_values(row)) for row in writes.history]

    # ------------------------------------------------------------------------------------------------------------
    def _made_ready(self, statement: Executable, values: Mapping[str, Any]) -> tuple[Ready, Sequence[Any]]:
        made = self._ready.get(statement)
        if made is None:
            self._sessions.prepare()
            made = self._ready[statement] = Ready(statement, self._sessions.engine.dialect)
        return made, made.bound(values)

    def _run(self, label: str, ready: Callable[[], tuple[Ready, Sequence[Any]]]) -> Sequence[list[Any]] | None:
        """Its rows, none where nothing was written; None where it was refused."""
        try:
            return self._sessions.at_once(label, *ready())
        except DBAPIError as error:
            if self._database.trouble(error) is Trouble.LOST:
                raise _Unsure from error
            return None  # a guard was missed; or the usual way meets it as well, and tells of it


def _added(table: Table, step: StepRecord, place: int) -> Change:
    """The row of a new step; most have nothing but zeros in some columns, which then need not be bound."""
    values = (*step_values(step), place, region_of(step.key), has_undo(step.spec_text))
    if _zeros_of(values) != _ZEROS:
        return Change(table, _STEP, values)
    return Change(table, _REST, _rest_of(values), fixed=_FIXED)


def _may_be_lost(writes: Writes) -> bool:
    """Who lost this in a crash of the database would do it again, and nothing else could have come of it.

    Steps are ordered, which the body orders again: whoever claims one with an undo makes the order durable too, but a
    worker without celery_saga claims nothing. Or an attempt begins, of a step that has nothing to undo.
    """
    if writes.changed or writes.history or not writes.added or "claim_token" in writes.run:
        return False
    if all(map(_is_order, writes.added)):
        return True
    step = writes.added[0]
    return len(writes.added) == 1 and step.status is StepStatus.RUNNING and may_claim_asynchronously(step)


def _is_order(step: StepRecord) -> bool:
    is_due = step.status is StepStatus.SCHEDULED and step.kind is StepKind.STEP
    return is_due and not StepSpec.from_text(step.spec_text).remote


def _is_plain(writes: Writes) -> bool:
    has_more = writes.started or writes.folded or writes.signals or "input_text" in writes.run
    return not has_more and len(writes) <= FEW


def _settled(old: Snapshot, new: Snapshot, now: Moment, told: datetime) -> Snapshot:
    """The new snapshot as it was written: with the database's time."""
    fresh = {key: moved(step, now, told) for key, step in new.steps.items() if step is not old.steps.get(key)}
    history = (*old.history, *(moved(row, now, told) for row in new.history[len(old.history) :]))
    return replace(new, run=moved(new.run, now, told), steps={**new.steps, **fresh}, history=history)
