"""Runs for who shows them elsewhere: some by their ids, and those that have ended lately; no payload read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Integer, Select, and_, bindparam, or_, select

from celery_saga.core.records import RunRecord
from celery_saga.store.rows import run_from
from celery_saga.store.schema import Schema
from celery_saga.store.searching import listed_columns
from celery_saga.store.session import Sessions, Tx

__all__ = ["Shown"]


class Shown:
    """Reads, each a transaction of its own."""

    def __init__(self, sessions: Sessions, schema: Schema) -> None:
        self._sessions = sessions
        run = schema.run
        lists = select(*listed_columns(run))
        self._by_id = lists.where(run.c.id.in_(bindparam("ids", expanding=True)))
        lately = [run.c.saga == bindparam("saga"), run.c.ended_at >= bindparam("since"), run.c.purged_at.is_(None)]
        behind = or_(
            run.c.ended_at > bindparam("at"), and_(run.c.ended_at == bindparam("at"), run.c.id > bindparam("after"))
        )
        page = lists.order_by(run.c.ended_at, run.c.id).limit(bindparam("limit", type_=Integer()))
        self._ended = page.where(
            *lately, run.c.ended_at < bindparam("until"), run.c.ended_at >= bindparam("at"), behind
        )

    def runs(self, ids: Sequence[str]) -> list[RunRecord]:
        """Those of them that are there, in no order; a few hundred at most."""
        return self._read(self._by_id, {"ids": list(ids)}) if ids else []

    def ended(self, sagas: Sequence[str], since: datetime, until: datetime, *, page: int) -> Iterator[list[RunRecord]]:
        """Runs of these sagas that have ended from `since` on and before `until`, in pages, the oldest end first."""
        for saga in sagas:
            at, after = since, ""
            while found := self._read(
                self._ended,
                {"saga": saga, "since": since, "until": until, "at": at, "after": after, "limit": page},
            ):
                yield found
                last = found[-1]
                if len(found) < page or last.ended_at is None:
                    break
                at, after = last.ended_at, last.id

    def _read(self, statement: Select[Any], values: dict[str, Any]) -> list[RunRecord]:
        def work(tx: Tx) -> list[Any]:
            return list(tx.run("list shown", statement, values))

        return [run_from(row) for row in self._sessions.read("shown", work)]
