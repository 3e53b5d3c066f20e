"""Who sweeps: one row for each sweeper, renewed by its ticks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, case, delete, func, select, update

from celery_saga.core.ports import Fleet
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.types import Instant

_FORGOTTEN_AFTER = timedelta(days=7)


class Sweepers:
    """Statements over the sweepers' rows."""

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._clock = clock
        row = schema.sweeper
        what = {name: bindparam(f"new_{name}", type_=row.c[name].type) for name in ("host", "pid", "sagas_text")}
        seen_at = bindparam("new_seen_at", type_=Instant())
        self._seen = update(row).where(row.c.name == bindparam("of_name")).values(seen_at=seen_at, **what)
        self._first = database.insert_unless_there(row)
        before = func.coalesce(func.sum(case((row.c.name < bindparam("of_name"), 1), else_=0)), 0)
        self._alive = select(func.count(), before).where(row.c.seen_at >= bindparam("since", type_=Instant()))
        self._old = delete(row).where(row.c.seen_at < bindparam("since", type_=Instant()))
        self._gone = delete(row).where(row.c.name == bindparam("of_name"))
        self._now = select(clock.now)
        self._all = select(row, clock.now.label("now")).order_by(row.c.name)

    def beat(self, tx: Tx, name: str, *, host: str, pid: int, sagas: Iterable[tuple[str, int]], ttl_s: float) -> Fleet:
        """This sweeper is alive; it and the others that are."""
        text = json.dumps(sorted(set(sagas)))
        now = tx.run("read clock", self._now, self._clock.binds()).scalar_one()
        values = {"of_name": name, "new_host": host, "new_pid": pid, "new_sagas_text": text, "new_seen_at": now}
        if tx.run("beat", self._seen, values).rowcount != 1:
            row = {"name": name, "host": host, "pid": pid, "since_at": now, "seen_at": now, "sagas_text": text}
            tx.run("first beat", self._first, row)
            tx.run("forget sweepers", self._old, {"since": now - _FORGOTTEN_AFTER})
        since = now - timedelta(seconds=ttl_s)
        alive, before = tx.run("count sweepers", self._alive, {"since": since, "of_name": name}).one()
        return Fleet(int(alive), int(before), now)

    def leave(self, tx: Tx, name: str) -> None:
        """This sweeper has stopped in good order."""
        tx.run("leave", self._gone, {"of_name": name})

    def all(self, tx: Tx) -> list[Mapping[str, Any]]:
        """Every sweeper of the last week, by name; `alive_s` since its first tick, `silent_s` since its last."""
        found: list[Mapping[str, Any]] = []
        for row in tx.run("load sweepers", self._all, self._clock.binds()):
            found.append(
                {
                    "name": row.name,
                    "host": row.host,
                    "pid": row.pid,
                    "seen_at": row.seen_at,
                    "sagas": [(saga, version) for saga, version in json.loads(row.sagas_text)],
                    "alive_s": (row.seen_at - row.since_at).total_seconds(),
                    "silent_s": (row.now - row.seen_at).total_seconds(),
                }
            )
        return found
