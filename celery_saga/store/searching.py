"""Pages of runs: each filter led by an index, the newest first, and no payload read.

Theory of operation. The order never changes for a run, so a page begins where the one before ended, whatever is written
meanwhile. An index gives that order only below values that are all fixed; a saga has few versions and a run few
statuses, so what is asked of a saga is asked of each version and status on its own and merged: a hundred rows of each
at most, however many there are.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Integer,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    union,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.ports import REPEATED, RunFilter
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.errors import InvalidPayload
from celery_saga.store.claims import WORKING
from celery_saga.store.clock import Clock
from celery_saga.store.rows import RUN_FIELDS, run_from
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.types import Instant

_ATTENTION = (RunStatus.SUSPENDED.value, RunStatus.COMPENSATION_FAILED.value)
_STATUSES = tuple(status.value for status in RunStatus)
_MERGED_MOST = 400  # so many that asking for each on its own costs more than it saves
_GROUP = ("saga", "version", "status")
_LEFT_OUT = frozenset({"input_text", "result_text", "cut_text", "pending_text"})
_EMPTIED = {"spec_text": "{}", "headers_text": "{}", "input_digest": ""}  # never NULL


def listed_columns(run: Table) -> list[ColumnElement[Any]]:
    """The columns of a run in a list, in the order of its fields: those with payloads are not read."""
    found: list[ColumnElement[Any]] = []
    for name in RUN_FIELDS:
        if name in _EMPTIED:
            found.append(literal(_EMPTIED[name], Text()).label(name))
        else:
            found.append(literal(None, run.c[name].type).label(name) if name in _LEFT_OUT else run.c[name])
    return found


class Searching:
    """Statements that find runs for people."""

    def __init__(self, schema: Schema, clock: Clock) -> None:
        self._schema, self._clock = schema, clock
        run = schema.run
        self._lists = select(*listed_columns(run))
        self._newest = (run.c.created_at.desc(), run.c.id.desc())
        self._created = select(run.c.created_at).where(run.c.id == bindparam("run_id"))
        self._now = select(clock.now)
        self._built: dict[tuple[Any, ...], Select[Any]] = {}
        self._sagas_with = _sagas_with(run)
        self._versions = _versions(run)

    def runs(self, tx: Tx, wanted: RunFilter) -> list[RunRecord]:
        """See the port."""
        if wanted.after is not None and wanted.after_at is None:
            wanted = replace(wanted, after_at=self._created_of(tx, wanted.after))
        narrow = wanted.tag is not None or wanted.lane is not None or wanted.key is not None
        if (wanted.saga is None and wanted.version is None) or narrow or wanted.purged or wanted.late_s is not None:
            return self._found(tx, self._plain(tx, wanted), self._binds(wanted))
        groups = self._groups(tx, wanted)
        if not groups:
            return []
        if len(groups) > _MERGED_MOST:
            return self._found(tx, self._plain(tx, wanted), self._binds(wanted))
        each = {
            f"{name}_{n}": value for n, group in enumerate(groups) for name, value in zip(_GROUP, group, strict=True)
        }
        return self._found(tx, self._merged(len(groups), wanted), {**self._binds(wanted), **each})

    def _found(self, tx: Tx, statement: Select[Any], binds: dict[str, Any]) -> list[RunRecord]:
        return [run_from(row) for row in tx.run("list runs", statement, binds)]

    def _page(self, wanted: RunFilter) -> list[ColumnElement[bool]]:
        """What every run of the page fulfils whatever it is of; see `_binds`."""
        run = self._schema.run
        found: list[ColumnElement[bool]] = [
            run.c.purged_at.is_not(None) if wanted.purged else run.c.purged_at.is_(None)
        ]
        if wanted.since is not None:
            found.append(run.c.created_at >= bindparam("since"))
        if wanted.until is not None:
            found.append(run.c.created_at < bindparam("until"))
        if wanted.after is not None:
            # The first half says to an index where to begin; not every database learns that from the second.
            is_later = or_(run.c.created_at < bindparam("after_at"), run.c.id < bindparam("after"))
            found += [run.c.created_at <= bindparam("after_at"), is_later]
        return found

    def _binds(self, wanted: RunFilter) -> dict[str, Any]:
        given = {name: getattr(wanted, name) for name in ("since", "until", "after", "after_at")}
        return {"limit": wanted.limit, **{name: value for name, value in given.items() if value is not None}}

    def _created_of(self, tx: Tx, run_id: str) -> datetime:
        at: datetime | None = tx.run("find page", self._created, {"run_id": run_id}).scalar_one_or_none()
        if at is None:
            raise InvalidPayload(
                f"after={run_id!r}: there is no such run, so nobody knows which ones follow it; nothing was read. Give "
                "`next` of the page before, which also tells it when that page's last run is gone.",
                path="after",
            )
        return at

    def _statuses(self, wanted: RunFilter) -> tuple[str, ...] | None:
        """Those that are wanted; None: any."""
        if not wanted.attention:
            return wanted.status
        return tuple(x for x in _ATTENTION if wanted.status is None or x in wanted.status)

    # -- a saga, a version ---------------------------------------------------------------------------------------
    def _groups(self, tx: Tx, wanted: RunFilter) -> list[tuple[str, int, str]]:
        """Each saga, version and status to be asked for on its own."""
        statuses = self._statuses(wanted)
        each = _STATUSES if statuses is None else statuses
        if wanted.saga is not None and wanted.version is not None:
            pairs = [(wanted.saga, wanted.version)]
        elif wanted.saga is not None:
            rows = tx.run("find versions", self._versions, {"of_saga": wanted.saga})
            pairs = [(wanted.saga, version) for (version,) in rows if version is not None]
        else:
            rows = tx.run("find sagas", self._sagas_with, {"of_version": wanted.version})
            pairs = [(saga, wanted.version or 0) for (saga,) in rows]
        return [(saga, version, status) for saga, version in pairs for status in each]

    def _merged(self, groups: int, wanted: RunFilter) -> Select[Any]:
        """Built once for so many groups: building it takes longer than it takes the database."""
        binds = self._binds(wanted)
        shape = (groups, *sorted(binds))
        if shape not in self._built:
            self._built[shape] = self._merge(groups, self._page(wanted))
        return self._built[shape]

    def _merge(self, groups: int, page: list[ColumnElement[bool]]) -> Select[Any]:
        run, limit = self._schema.run, bindparam("limit", type_=Integer())
        parts: list[Select[Any]] = []
        for number in range(groups):
            of_group = [run.c[name] == bindparam(f"{name}_{number}") for name in _GROUP]
            newest = select(run.c.id, run.c.created_at).where(*of_group, *page).order_by(*self._newest)
            part = newest.limit(limit).subquery()
            parts.append(select(part.c.id, part.c.created_at))
        found = union_all(*parts).subquery("found") if groups > 1 else parts[0].subquery("found")
        # Sorted before anything else of them is read.
        last = select(found.c.id).order_by(found.c.created_at.desc(), found.c.id.desc()).limit(limit).subquery("last")
        return self._lists.join(last, last.c.id == run.c.id).order_by(*self._newest).limit(limit)

    # -- anything else -------------------------------------------------------------------------------------------
    def _plain(self, tx: Tx, wanted: RunFilter) -> Select[Any]:
        run, page = self._schema.run, self._page(wanted)
        found = [
            run.c[name] == value
            for name in ("saga", "version", "key", "lane")
            if (value := getattr(wanted, name)) is not None
        ]
        statuses = self._statuses(wanted)
        if statuses is not None:
            found.append(run.c.status == statuses[0] if len(statuses) == 1 else run.c.status.in_(statuses))
        if wanted.late_s is not None:
            found += [run.c.status.in_(WORKING), run.c.id.in_(self._late(tx, wanted.late_s))]
        if wanted.tag is None:
            statement = self._lists.where(*page, *found).order_by(*self._newest)
            return statement.limit(bindparam("limit", type_=Integer()))
        return self._tagged(wanted, page, found)

    def _tagged(
        self, wanted: RunFilter, page: list[ColumnElement[bool]], found: list[ColumnElement[bool]]
    ) -> Select[Any]:
        """Over the tag's own index, which has the order of lists too."""
        run, tag = self._schema.run, self._schema.tag
        statement = self._lists.join(tag, tag.c.run_id == run.c.id).where(tag.c.tag == wanted.tag, *page, *found)
        if wanted.since is not None:
            statement = statement.where(tag.c.created_at >= bindparam("since"))
        if wanted.until is not None:
            statement = statement.where(tag.c.created_at < bindparam("until"))
        if wanted.after_at is not None:
            statement = statement.where(tag.c.created_at <= bindparam("after_at"))
        statement = statement.order_by(tag.c.created_at.desc(), tag.c.run_id.desc())
        return statement.limit(bindparam("limit", type_=Integer()))

    def _late(self, tx: Tx, late_s: float) -> Any:
        """Runs with something that was due so long ago, or that was woken again and again."""
        now: datetime = tx.run("read clock", self._now, self._clock.binds()).scalar_one()
        run, step, signal = self._schema.run, self._schema.step, self._schema.signal
        then = literal(now - timedelta(seconds=late_s), Instant())
        of_run = and_(step.c.run_id == run.c.id, step.c.generation == run.c.generation)
        unmoved = and_(step.c.sends >= REPEATED, step.c.wake_at.is_not(None), step.c.status != StepStatus.RUNNING.value)
        return union(
            select(run.c.id).where(run.c.wake_at < then),
            select(run.c.id).where(run.c.wake_at.is_not(None), run.c.sends >= REPEATED),
            select(step.c.run_id).join(run, of_run).where(step.c.wake_at < then),
            select(step.c.run_id).join(run, of_run).where(unmoved),
            select(signal.c.run_id).where(signal.c.wake_at < then),
        )


def _versions(run: Table) -> Select[Any]:
    """The versions of a saga, each found by one step through its index."""
    mine = run.c.saga == bindparam("of_saga"), run.c.purged_at.is_(None)
    found = select(func.min(run.c.version).label("version")).where(*mine).cte("versions", recursive=True)
    higher = select(func.min(run.c.version)).where(*mine, run.c.version > found.c.version).scalar_subquery()
    found = found.union_all(select(higher).where(found.c.version.is_not(None)))
    return select(found.c.version)


def _sagas_with(run: Table) -> Select[Any]:
    """The sagas that have runs of a version, found in the same way."""
    kept = run.c.purged_at.is_(None)
    found = select(func.min(run.c.saga).label("saga")).where(kept).cte("sagas", recursive=True)
    higher = select(func.min(run.c.saga)).where(kept, run.c.saga > found.c.saga).scalar_subquery()
    found = found.union_all(select(higher).where(found.c.saga.is_not(None)))
    has = exists().where(kept, run.c.saga == found.c.saga, run.c.version == bindparam("of_version"))
    return select(found.c.saga).where(has)
