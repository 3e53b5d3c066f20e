"""How late the sweepers are: the oldest wake-up that has come and that nobody has taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, select

from celery_saga.store.claims import WORKING
from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore

__all__ = ["Late", "oldest_due"]


@dataclass(frozen=True, slots=True)
class Late:
    """A wake-up that has come.

    Args:
        kind: `run`, `step` or `signal`.
        run_id: the run to be woken.
        due_at: when it was to be woken.
        late_s: since when, in seconds.
    """

    kind: str
    run_id: str
    due_at: datetime
    late_s: float


def oldest_due(store: SqlStore) -> Late | None:
    """The oldest wake-up that is due now; None when nothing is. Takes no lock and moves nothing."""
    return store.sessions.read("oldest due", lambda tx: _oldest(tx, store))


def _oldest(tx: Tx, store: SqlStore) -> Late | None:
    schema, clock = store.schema, store.clock
    run, step, signal = schema.run, schema.step, schema.signal
    looks = {
        "run": (run, run.c.id, and_(run.c.wake_at <= clock.fixed, run.c.status.in_(WORKING))),
        "step": (step, step.c.run_id, step.c.wake_at <= clock.fixed),
        "signal": (signal, signal.c.run_id, signal.c.wake_at <= clock.fixed),
    }
    found: list[Late] = []
    for kind, (table, run_id, is_due) in looks.items():
        first = select(run_id, table.c.wake_at, clock.fixed).where(is_due).order_by(table.c.wake_at).limit(1)
        for of_run, due_at, now in tx.run("find oldest due", first, clock.binds()):
            found.append(Late(kind, of_run, due_at, (now - due_at).total_seconds()))
    return min(found, key=lambda late: late.due_at, default=None)
