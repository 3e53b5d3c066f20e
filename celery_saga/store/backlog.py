"""What has piled up beside the runs: announcements that nobody has taken, and schedules that cannot be fired."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore

__all__ = ["MOST", "Backlog", "backlog"]

MOST = 100_000
"""So many announcements are counted; it may be more."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits.

    Args:
        announcements: in the outbox, for the exchange of events or the result backend; at most `MOST` are counted.
        oldest_s: for how many seconds the oldest of them has waited; None: there is none.
        failing_schedules: how many could not be fired the last time.
    """

    announcements: int
    oldest_s: float | None
    failing_schedules: int

    def document(self) -> dict[str, dict[str, float | None]]:
        """As JSON."""
        waiting = {"waiting": self.announcements, "oldest_s": self.oldest_s}
        return {"outbox": waiting, "schedules": {"failing": self.failing_schedules}}


def backlog(store: SqlStore) -> Backlog:
    """What waits now. Takes no lock and writes nothing.

    Raises:
        StoreUnavailable: the database is out of reach.
    """
    return store.sessions.read("backlog", lambda tx: _backlog(tx, store))


def _backlog(tx: Tx, store: SqlStore) -> Backlog:
    outbox, schedule = store.schema.outbox, store.schema.schedule
    some = select(outbox.c.id).limit(MOST).subquery("some")
    count = int(tx.run("count outbox", select(func.count()).select_from(some)).scalar_one())
    oldest_s = None
    if count:
        first = select(outbox.c.at, store.clock.fixed).order_by(outbox.c.id).limit(1)
        row = tx.run("find oldest in outbox", first, store.clock.binds()).one_or_none()
        oldest_s = None if row is None else max(0.0, (row[1] - row[0]).total_seconds())
    failing = select(func.count()).select_from(schedule).where(schedule.c.failures > 0)
    return Backlog(count, oldest_s, int(tx.run("count failing schedules", failing).scalar_one()))
