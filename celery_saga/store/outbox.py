"""The outbox: what is to be announced of runs, written with each transition; one relay at a time empties it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, exists, insert, null, or_, select, update

from celery_saga.core.lifecycle import Announcement, Purpose, Wanted, news_of_start, news_of_transition
from celery_saga.core.ports import Transition
from celery_saga.core.records import RunRecord
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.schema import Schema
from celery_saga.store.session import Sessions, Tx

__all__ = ["Outbox", "OutboxRows"]

_FIELDS = ("id", "purpose", "run_id", "saga", "event", "event_id", "at", "body_text")


class OutboxRows:
    """Statements that write into the outbox, inside the transaction that changes a run.

    Of one run, rows are written under its lock (the first one with the run itself), so their ids follow its history.
    """

    def __init__(self, schema: Schema) -> None:
        self.wanted: Wanted | None = None
        self._insert = insert(schema.outbox)

    def started(self, tx: Tx, runs: Sequence[RunRecord]) -> None:
        """These runs were inserted."""
        if self.wanted is not None:
            self._write(tx, [each for run in runs for each in news_of_start(run, self.wanted, run.created_at)])

    def changed(self, tx: Tx, done: Transition) -> None:
        """This transition was written."""
        if self.wanted is not None:
            self._write(tx, news_of_transition(done.old, done.new, self.wanted, done.now))

    def _write(self, tx: Tx, news: list[Announcement]) -> None:
        if news:
            rows = [{name: getattr(each, name) for name in _FIELDS if name != "id"} for each in news]
            tx.run("insert outbox", self._insert, rows[0] if len(rows) == 1 else rows)


class Outbox:
    """The relay's side: transactions of its own.

    Args:
        rows: of the same store; `wanted` is kept there.
    """

    def __init__(self, sessions: Sessions, schema: Schema, clock: Clock, database: Database, rows: OutboxRows) -> None:
        self._sessions, self._clock, self._rows = sessions, clock, rows
        outbox, relay = schema.outbox, schema.relay
        of_purpose = outbox.c.purpose == bindparam("purpose")
        self._any = select(exists().where(of_purpose))
        columns = [outbox.c[name] for name in _FIELDS]
        self._next = select(*columns).where(of_purpose).order_by(outbox.c.id).limit(bindparam("limit"))
        self._drop = delete(outbox).where(outbox.c.id.in_(bindparam("ids", expanding=True)))
        self._first = database.insert_unless_there(relay)
        named = relay.c.name == bindparam("of_name")
        token = bindparam("new_token", type_=relay.c.token.type)
        is_free = or_(
            relay.c.token.is_(None),
            relay.c.token == bindparam("my_token", type_=relay.c.token.type),
            relay.c.lease_until <= clock.fixed,
        )
        self._take = update(relay).where(named, is_free).values(token=token, lease_until=clock.later)
        is_mine = relay.c.token == bindparam("my_token", type_=relay.c.token.type)
        self._leave = update(relay).where(named, is_mine).values(token=null(), lease_until=null())

    @property
    def wanted(self) -> Wanted | None:
        """What transitions through this store announce; None: nothing, at no cost."""
        return self._rows.wanted

    @wanted.setter
    def wanted(self, wanted: Wanted | None) -> None:
        self._rows.wanted = wanted

    def is_waiting(self, purpose: Purpose) -> bool:
        """Something is there; one statement."""
        return bool(self._sessions.read("peek outbox", lambda tx: self._is_any(tx, purpose)))

    def next(self, purpose: Purpose, *, limit: int) -> list[Announcement]:
        """The oldest of this purpose, by `id`; they stay until they are deleted."""

        def work(tx: Tx) -> list[Any]:
            return list(tx.run("load outbox", self._next, {"purpose": purpose.value, "limit": limit}))

        rows = self._sessions.read("outbox", work)
        return [Announcement(row[0], Purpose(row[1]), *row[2:]) for row in rows]

    def delete(self, ids: Sequence[int]) -> None:
        """These were published."""
        if ids:
            self._sessions.write("outbox sent", lambda tx: tx.run("delete outbox", self._drop, {"ids": list(ids)}))

    def take(self, purpose: Purpose, *, token: str, lease_s: float) -> bool:
        """Become the only relay of this purpose for so long, or stay it; False: another one is."""

        def work(tx: Tx) -> bool:
            values = {"of_name": purpose.value, "new_token": token, "my_token": token}
            if tx.run("take relay", self._take, values | self._clock.binds(lease_s)).rowcount == 1:
                return True
            tx.run("first relay", self._first, {"name": purpose.value, "token": None, "lease_until": None})
            return tx.run("take relay", self._take, values | self._clock.binds(lease_s)).rowcount == 1

        return self._sessions.write("take relay", work)

    def leave(self, purpose: Purpose, *, token: str) -> None:
        """Let another one be the relay; nothing where this one is it no more."""
        values = {"of_name": purpose.value, "my_token": token}
        self._sessions.write("leave relay", lambda tx: tx.run("leave relay", self._leave, values))

    def _is_any(self, tx: Tx, purpose: Purpose) -> Any:
        return tx.run("peek outbox", self._any, {"purpose": purpose.value}).scalar_one()
