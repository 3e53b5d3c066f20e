"""The outside world: an append-only table on connections of its own, which no fault touches."""

from __future__ import annotations

import os
import threading
from typing import Any

import psycopg2

LEDGER = "FAULTS_LEDGER"
"""Environment variable: the libpq URL of the ledger's database."""
TABLE = """CREATE TABLE chaos (id bigserial PRIMARY KEY, what text, run text, step text, name text, token text,
                               attempt int, pid int, ts timestamptz DEFAULT clock_timestamp())"""
INSERT = "INSERT INTO chaos (what, run, step, name, token, attempt, pid) VALUES (%s, %s, %s, %s, %s, %s, %s)"
SELECT = "SELECT id, what, run, step, name, token, attempt, pid, extract(epoch from ts)::float8 FROM chaos ORDER BY id"

_mine = threading.local()


def append(what: str, name: str) -> None:
    """A row of the attempt that the caller runs in: it `begins`, has its `effect`, or `dies` now."""
    from celery_saga import current_step as now

    row = (what, now.run_id, now.step, name, now.idempotency_key, now.attempt, os.getpid())
    connection = _connection()
    with connection.cursor() as cursor:
        cursor.execute(INSERT, row)


def _connection() -> Any:
    """One for each thread of each process."""
    if getattr(_mine, "pid", 0) != os.getpid():
        _mine.pid, _mine.connection = os.getpid(), None
    if _mine.connection is None or _mine.connection.closed:
        _mine.connection = psycopg2.connect(os.environ[LEDGER])
        _mine.connection.autocommit = True
    return _mine.connection
