"""Numbered changes of the tables, applied under a lock and recorded in `saga_schema`.

Each has a `pre` part, which the old code does not notice (run it before the deploy), and may have a `post` part, which
takes away what only the old code needed (run it afterwards). So that old and new code run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, insert, inspect, select

from celery_saga.errors import SchemaOutdated
from celery_saga.store.migrations import m0001_first
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore

Phase = Literal["pre", "post"]
State = Literal["absent", "outdated", "current", "newer"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change; both parts may be run again after they were cut short."""

    number: int
    name: str
    pre: Callable[[Connection, str], None] | None = None
    post: Callable[[Connection, str], None] | None = None

    def parts(self) -> Iterator[tuple[Phase, Callable[[Connection, str], None]]]:
        """Its parts, in order."""
        if self.pre is not None:
            yield "pre", self.pre
        if self.post is not None:
            yield "post", self.post

    def label(self, phase: Phase) -> str:
        """As shown to people: `0001_first.pre`."""
        return f"{self.number:04d}_{self.name}.{phase}"


MIGRATIONS = (Migration(1, "first", pre=m0001_first.pre),)


def migrate(
    store: SqlStore, *, phase: Phase | None = None, migrations: tuple[Migration, ...] = MIGRATIONS
) -> list[str]:
    """Bring the tables up to date; what was applied now, in order. Two at once: one waits for the other.

    Args:
        phase: only the `pre` or only the `post` parts; None: both.
        migrations: in order of their numbers.
    """

    def work(tx: Tx) -> list[str]:
        name = store.schema.applied.name
        store.database.lock_migrations(tx.connection, name)
        try:
            applied = _apply(tx, store, phase, migrations)
            # Before the lock is given back: whoever waits for it must see what was applied.
            tx.connection.commit()
            return applied
        finally:
            if not tx.connection.invalidated:
                store.database.unlock_migrations(tx.connection, name)

    return store.sessions.write("migrate", work)


def pending(store: SqlStore, *, migrations: tuple[Migration, ...] = MIGRATIONS) -> list[str]:
    """What `migrate` would apply, in order."""
    done = _read_applied(store)
    return [m.label(phase) for m in migrations for phase, _ in m.parts() if (m.number, phase) not in done]


def schema_state(store: SqlStore, *, migrations: tuple[Migration, ...] = MIGRATIONS) -> State:
    """How the tables stand to this code; a `post` part that is still to come does not make them outdated."""
    done = _read_applied(store)
    if not done:
        return "absent"
    if any(m.pre is not None and (m.number, "pre") not in done for m in migrations):
        return "outdated"
    newest = max(m.number for m in migrations)
    return "newer" if max(number for number, _ in done) > newest else "current"


def _apply(tx: Tx, store: SqlStore, phase: Phase | None, migrations: tuple[Migration, ...]) -> list[str]:
    schema, connection = store.schema, tx.connection
    there = inspect(connection).has_table(schema.applied.name)
    done = _applied_on(tx, schema) if there else set()
    applied: list[str] = []
    for migration in migrations:
        for part, change in migration.parts():
            if (migration.number, part) in done or phase not in {None, part}:
                continue
            change(connection, schema.prefix)
            now = tx.run("read clock", select(store.clock.now), store.clock.binds()).scalar_one()
            row = {"number": migration.number, "phase": part, "name": migration.name, "applied_at": now}
            tx.run("record migration", insert(schema.applied), row)
            applied.append(migration.label(part))
    return applied


def _read_applied(store: SqlStore) -> set[tuple[int, str]]:
    try:
        return store.sessions.read("schema", lambda tx: _applied_on(tx, store.schema))
    except SchemaOutdated:
        return set()


def _applied_on(tx: Tx, schema: Schema) -> set[tuple[int, str]]:
    rows = tx.run("load schema", select(schema.applied.c.number, schema.applied.c.phase))
    return {(number, phase) for number, phase in rows}
