"""Purges runs that have ended: whole trees, in short transactions, each row guarded by the statement that takes it.

Theory of operation. A transaction locks some runs at the top of their trees (those that others have locked are left for
another time), reads what hangs below them, and takes a tree only if all of it may go. The rows are then taken, from the
bottom up, by statements that say again what may go: a run that was restarted, retried or compensated in between, or
below which something new hangs, is missed by them, and the whole transaction is done again. Whoever purges a tree has
its top locked, and nobody else ever locks two runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, and_, bindparam, case, delete, exists, func, not_, null, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.retention import PURGEABLE, Purged, PurgeFilter, Stretch
from celery_saga.core.status import RunStatus
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.offloaded import references_of
from celery_saga.store.portions import portions
from celery_saga.store.schema import Schema
from celery_saga.store.session import GuardMissed, Tx

_ROWS_MOST = 5_000  # in one transaction, unless a single tree has more
_LIVE = tuple(status.value for status in RunStatus if not status.is_end)
_PURGEABLE = tuple(status.value for status in PURGEABLE)
_EMPTY: dict[str, Any] = {
    **dict.fromkeys(("input_text", "result_text", "error_text", "error_step", "cut_text", "pending_text", "reason")),
    **dict.fromkeys(("spec_text", "headers_text"), "{}"),
    "tags_text": "[]",
}
"""What an emptied row holds where it held what a user gave, or what came of it."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A run of a tree."""

    id: str
    root: str
    key: str | None = None  # of the run at the top; None also of one that needs not be kept
    may_go: bool = True


class Purging:
    """Statements that purge."""

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._schema, self._clock, self._database = schema, clock, database
        run = schema.run
        self._now = select(clock.now)
        ids = run.c.id.in_(bindparam("ids", expanding=True))
        may_go = and_(ids, run.c.status.in_(_PURGEABLE), run.c.ended_at < bindparam("cutoff"), not_(_has_below(run)))
        self._empty = (
            update(run)
            .where(may_go, run.c.purged_at.is_(None))
            .values(
                purged_at=bindparam("new_purged_at", type_=run.c.purged_at.type),
                state_version=run.c.state_version + 1,
                wake_at=None,
                attention_at=None,
                **_EMPTY,
            )
        )
        self._delete = delete(run).where(may_go)
        below = run.c.parent_id.in_(bindparam("ids", expanding=True))
        self._below = select(run.c.id, run.c.parent_id, run.c.status, run.c.ended_at).where(below)
        self._delete_of = [
            delete(table).where(table.c.run_id.in_(bindparam("ids", expanding=True)))
            for table in (schema.history, schema.signal, schema.step, schema.slot, schema.tag)
        ]
        self._sagas = _sagas(run)

    # -- what there is to do -------------------------------------------------------------------------------------
    def stretches(self, tx: Tx, wanted: PurgeFilter, keep_latest: int | None) -> list[Stretch]:
        """Where a purge begins: one stretch for each saga, each up to its latest `keep_latest` runs that have ended."""
        sagas = [saga for (saga,) in tx.run("find sagas", self._sagas) if saga is not None]
        names = sagas if wanted.saga is None else [wanted.saga]
        found = [Stretch(name) for name in names]
        if keep_latest:
            bounded = [(stretch, self._nth_latest(tx, stretch.saga, keep_latest)) for stretch in found]
            found = [replace(stretch, before=before) for stretch, before in bounded if before is not None]
        return found if wanted.keep_keys else [*found, Stretch(None)]

    def _nth_latest(self, tx: Tx, saga: str | None, count: int) -> tuple[datetime, str] | None:
        """The oldest of those that stay; None: all stay."""
        run = self._schema.run
        ended = and_(run.c.saga == saga, run.c.ended_at.is_not(None), run.c.purged_at.is_(None))
        of_those = and_(ended, run.c.status.in_(_PURGEABLE), self._is_top())
        latest = select(run.c.ended_at, run.c.id).where(of_those).order_by(run.c.ended_at.desc(), run.c.id.desc())
        row = tx.run("find latest", latest.offset(count - 1).limit(1)).one_or_none()
        return None if row is None else (row[0], row[1])

    def protected(self, tx: Tx, wanted: PurgeFilter) -> tuple[int, int]:
        """How many runs are older than the cut-off and stay: live ones, and those whose undos wait for a person."""
        run = self._schema.run
        count = select(func.count()).select_from(run)
        if wanted.saga is not None:
            count = count.where(run.c.saga == wanted.saga)
        live = count.where(run.c.status.in_(_LIVE), run.c.created_at < wanted.cutoff)
        failed = RunStatus.COMPENSATION_FAILED.value
        unresolved = count.where(run.c.status == failed, run.c.ended_at < wanted.cutoff)
        active: int = tx.run("count live runs", live).scalar_one()
        open_: int = tx.run("count unresolved runs", unresolved).scalar_one()
        return active, open_

    # -- one transaction -----------------------------------------------------------------------------------------
    def purge(
        self, tx: Tx, wanted: PurgeFilter, stretch: Stretch, limit: int, *, dry_run: bool
    ) -> tuple[Purged, list[str]]:
        """Take at most `limit` trees, fewer where they are large.

        Returns:
            What was done, and under which references the runs have held texts elsewhere.
        Raises:
            GuardMissed: one of them moved meanwhile; roll back and do it again.
        """
        rows = tx.run("pick ended runs", self._candidates(wanted, stretch, limit, locks=not dry_run)).all()
        roots, last, is_whole = _share(rows, limit)
        levels = self._tree(tx, roots, wanted.cutoff) if stretch.saga is not None else [roots]
        held = {member.root for level in levels for member in level if not member.may_go}
        levels = [[member for member in level if member.root not in held] for level in levels]
        matched = sum(map(len, levels))
        rest = None if is_whole or last is None else replace(stretch, after=last)
        if dry_run or not matched:
            tx.discard()
            return Purged(matched, 0, 0, rest), []
        keeps = wanted.keep_keys and stretch.saga is not None
        kept = {member.id for member in levels[0] if keeps and member.key is not None}
        elsewhere = [
            reference
            for some in portions([member.id for level in levels for member in level])
            for reference in references_of(tx, self._schema, some)
        ]
        for level in reversed(levels):
            self._take(tx, [member.id for member in level], kept, wanted.cutoff)
        return Purged(matched, matched, len(kept), rest), elsewhere

    def _take(self, tx: Tx, ids: list[str], kept: set[str], cutoff: datetime) -> None:
        now = tx.run("read clock", self._now, self._clock.binds()).scalar_one()
        for some in portions([x for x in ids if x in kept]):
            of = {"ids": list(some), "cutoff": cutoff, "new_purged_at": now}
            _landed(tx.run("empty runs", self._empty, of), some)
        for some in portions([x for x in ids if x not in kept]):
            _landed(tx.run("delete runs", self._delete, {"ids": list(some), "cutoff": cutoff}), some)
        for some in portions(ids):
            for statement in self._delete_of:
                tx.run("delete of runs", statement, {"ids": list(some)})

    def _candidates(self, wanted: PurgeFilter, stretch: Stretch, limit: int, *, locks: bool) -> Select[Any]:
        run = self._schema.run
        statuses = [status.value for status in wanted.status]
        found = [run.c.status.in_(statuses), run.c.ended_at.is_not(None), run.c.ended_at < wanted.cutoff]
        if stretch.saga is None:
            at = run.c.created_at
            found.append(run.c.purged_at.is_not(None))
            if wanted.saga is not None:
                found.append(run.c.saga == wanted.saga)
        else:
            at = run.c.ended_at
            found += [run.c.saga == stretch.saga, run.c.purged_at.is_(None), self._is_top()]
        if stretch.after is not None:
            then, last = stretch.after
            found += [at >= then, or_(at > then, run.c.id > last)]
        if stretch.before is not None:
            then, first = stretch.before
            found += [at <= then, or_(at < then, run.c.id < first)]
        picked = select(at.label("at"), run.c.id, self._key_to_keep(), run.c.step_seq, run.c.history_seq)
        oldest = picked.where(*found).order_by(at, run.c.id).limit(limit)
        return oldest.with_for_update(skip_locked=self._database.skips_locked) if locks else oldest

    def _key_to_keep(self) -> ColumnElement[str | None]:
        """The key; none of a nominal time that is behind its schedule: no such time is ever fired again."""
        run, schedule = self._schema.run, self._schema.schedule
        may_fire = exists().where(schedule.c.saga == run.c.saga, schedule.c.next_at <= run.c.scheduled_for)
        return case((and_(run.c.scheduled_for.is_not(None), not_(may_fire)), null()), else_=run.c.key).label("key")

    def _is_top(self) -> ColumnElement[bool]:
        """It hangs below no run that is there."""
        run = self._schema.run
        parent = run.alias("parent")
        return or_(run.c.parent_id.is_(None), not_(exists().where(parent.c.id == run.c.parent_id)))

    def _tree(self, tx: Tx, roots: list[_Member], cutoff: datetime) -> list[list[_Member]]:
        """The runs and all that hang below them, level by level."""
        levels = [roots]
        while levels[-1]:
            above = {member.id: member.root for member in levels[-1]}
            below: list[_Member] = []
            for some in portions(sorted(above)):
                for row in tx.run("find children", self._below, {"ids": list(some)}):
                    may_go = row.status in _PURGEABLE and row.ended_at is not None and row.ended_at < cutoff
                    below.append(_Member(row.id, above[row.parent_id], may_go=may_go))
            levels.append(below)
        return levels


def _share(rows: Sequence[Any], limit: int) -> tuple[list[_Member], tuple[datetime, str] | None, bool]:
    """As many of the runs as one transaction should take; the last one; whether those were all."""
    taken: list[_Member] = []
    weight = 0
    for row in rows:
        weight += 1 + row.step_seq + row.history_seq
        if taken and weight > _ROWS_MOST:
            break
        taken.append(_Member(row.id, row.id, row.key))
    last = (rows[len(taken) - 1].at, rows[len(taken) - 1].id) if taken else None
    return taken, last, len(taken) == len(rows) < limit


def _landed(result: Any, wanted: Sequence[str]) -> None:
    if result.rowcount != len(wanted):
        raise GuardMissed


def _has_below(run: Table) -> ColumnElement[bool]:
    """Something hangs below the run."""
    child = run.alias("child")
    below = child.c.parent_id.in_(bindparam("ids", expanding=True))
    parents = select(child.c.parent_id).where(below).subquery("below")  # MySQL reads no table that it writes otherwise
    return run.c.id.in_(select(parents.c.parent_id))


def _sagas(run: Table) -> Select[Any]:
    """The sagas that have runs, each found by one step through an index."""
    kept = run.c.purged_at.is_(None)
    found = select(func.min(run.c.saga).label("saga")).where(kept).cte("sagas", recursive=True)
    higher = select(func.min(run.c.saga)).where(kept, run.c.saga > found.c.saga).scalar_subquery()
    found = found.union_all(select(higher).where(found.c.saga.is_not(None)))
    return select(found.c.saga)
