"""Many runs like one that was really executed, made by SQL: its rows under other ids, each run some time apart."""

from __future__ import annotations

from typing import Any

TIMES = frozenset(
    [
        *("created_at", "updated_at", "started_at", "ended_at", "at"),
        *("wake_at", "due_at", "sent_at", "not_before_at", "deadline_at"),
    ]
)


def multiply(connection: Any, run_id: str, times: int, apart: str) -> None:
    """Copy a run, its steps and its history.

    Args:
        connection: of psycopg2, in autocommit.
        times: how many copies.
        apart: an interval of PostgreSQL; the n-th copy's times are n times that later, negative: earlier.
    """
    with connection.cursor() as cursor:
        for table, key in (("saga_run", "id"), ("saga_step", "run_id"), ("saga_history", "run_id")):
            names = _columns(cursor, table)
            values = [_value(name, key, run_id, apart) for name in names]
            quoted = ", ".join(f'"{name}"' for name in names)
            cursor.execute(
                f"INSERT INTO {table} ({quoted}) SELECT {', '.join(values)} "
                f"FROM {table}, generate_series(1, {times}) AS n WHERE {key} = %s",
                (run_id,),
            )
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


def _columns(cursor: Any, table: str) -> list[str]:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position", (table,)
    )
    return [name for (name,) in cursor.fetchall()]


def _value(name: str, key: str, run_id: str, apart: str) -> str:
    if name == key:
        return f"md5('{run_id}' || n)::uuid::text"
    if name in TIMES:
        return f"\"{name}\" + n * interval '{apart}'"
    return f'"{name}"'
