"""The questions to PostgreSQL and to MariaDB or MySQL, over an open DB-API cursor."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from celery_saga.runtime.guard.facts import ServerFacts

__all__ = ["ask_mariadb", "ask_postgresql"]

_POSTGRESQL = """
SELECT current_setting('server_version_num')::int AS version,
       current_setting('max_connections')::int AS most,
       current_setting('superuser_reserved_connections')::int AS reserved,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS super,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS of_role,
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS of_database,
       (SELECT count(*) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) AS used,
       current_setting('transaction_read_only') = 'on' AS read_only,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit
"""
_VARIABLES = (
    "max_connections",
    "max_user_connections",
    "version",
    "read_only",
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "binlog_format",
)


def ask_postgresql(cursor: Any, now: Callable[[], datetime]) -> ServerFacts:
    """One statement for the settings and one for the clock."""
    cursor.execute(_POSTGRESQL)
    names = [column[0] for column in cursor.description]
    row = dict(zip(names, cursor.fetchone(), strict=True))
    limits = [row["most"] - (0 if row["super"] else row["reserved"])]
    # A superuser is held to no limit of the role or the database.
    if not row["super"]:
        limits += [row[name] for name in ("of_role", "of_database") if row[name] >= 0]
    weak = ("fsync", "full_page_writes", "synchronous_commit")
    return ServerFacts(
        product="PostgreSQL",
        version=(row["version"] // 10000, row["version"] % 10000),
        max_connections=min(limits),
        connections_in_use=int(row["used"]),
        clock_ahead_s=_clock_ahead_s(cursor, "SELECT clock_timestamp()", now),
        read_only=bool(row["read_only"]),
        not_durable=tuple(f"{name}=off" for name in weak if row[name] == "off"),
        statement_binlog=False,
    )


def ask_mariadb(cursor: Any, now: Callable[[], datetime]) -> ServerFacts:
    """Variables by name, so that one which a version lacks is no error."""
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    cursor.execute(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
    row = {name.lower(): value for name, value in cursor.fetchall()}
    cursor.execute("SHOW STATUS LIKE 'Threads_connected'")
    used = int(cursor.fetchone()[1]) - 1
    limits = [int(row["max_connections"])]
    if int(row.get("max_user_connections", 0)):
        limits.append(int(row["max_user_connections"]))
    flush = row.get("innodb_flush_log_at_trx_commit", "1")
    return ServerFacts(
        product="MariaDB" if "mariadb" in row["version"].lower() else "MySQL",
        version=_version(row["version"]),
        max_connections=min(limits),
        connections_in_use=used,
        clock_ahead_s=_clock_ahead_s(cursor, "SELECT UTC_TIMESTAMP(6)", now),
        read_only=row.get("read_only", "OFF") not in ("OFF", "0"),
        not_durable=() if flush in ("1", "3") else (f"innodb_flush_log_at_trx_commit={flush}",),
        statement_binlog=row.get("log_bin") == "ON" and row.get("binlog_format") == "STATEMENT",
    )


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", text)  # the prefix is for old replicas
    return (int(match[1]), int(match[2])) if match else ()


def _clock_ahead_s(cursor: Any, statement: str, now: Callable[[], datetime]) -> float:
    before = now()
    cursor.execute(statement)
    there: datetime = cursor.fetchone()[0]
    after = now()
    if there.tzinfo is None:
        there = there.replace(tzinfo=UTC)
    return (there - (before + (after - before) / 2)).total_seconds()
