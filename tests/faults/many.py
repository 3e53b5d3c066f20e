"""Thousands of runs that sleep, made of one: its rows are copied, which takes seconds instead of minutes."""

from __future__ import annotations

from typing import Any

from celery_saga import RunHandle
from tests.faults.world import World

_COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_name = %s"


def multiply(world: World, run: RunHandle[Any], count: int) -> None:
    """So many runs like this one, on PostgreSQL; their keys are o1, o2 and so on."""
    for table, id_column in (("saga_run", "id"), ("saga_step", "run_id")):
        names = [name for (name,) in world.sql(_COLUMNS, table) if name not in {id_column, "key"}]
        key = "'o' || n" if table == "saga_run" else "key"
        columns = ", ".join(names)
        world.sql(
            f"INSERT INTO {table} ({id_column}, key, {columns}) "
            f"SELECT left(t.{id_column}, 24) || lpad(n::text, 12, '0'), {key}, {columns} "
            f"FROM {table} t, generate_series(1, %s) n WHERE t.{id_column} = %s",
            *(count, run.id),
        )


def fall_due(world: World, within_s: float, *keys: str) -> None:
    """Timers of these runs, of all where none is named, end now or, evenly, within so many seconds."""
    due = "now() + random() * make_interval(secs => %s)"
    statement = f"UPDATE saga_step SET due_at = {due} WHERE kind = 'timer' AND status = 'waiting'"
    if keys:
        statement += " AND run_id IN (SELECT id FROM saga_run WHERE key = ANY(%s))"
    world.sql(statement, within_s, *([list(keys)] if keys else []))
    world.sql("UPDATE saga_step SET wake_at = due_at WHERE kind = 'timer' AND status = 'waiting'")
