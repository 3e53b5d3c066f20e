"""Checks of SQLite as the saga database: one host, and a file that all processes see."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts, Role
from celery_saga.runtime.guard.finding import Code, Finding, Level

__all__ = ["CHECKS", "CODES"]

SQLITE_IN_MEMORY = Code(
    "SQLITE_IN_MEMORY",
    Level.ERROR,
    "The saga database is SQLite in memory: each process has another, empty one, and all runs end with the process.",
    "Use a file (sqlite:////var/lib/app/saga.db) or a database server.",
)
SQLITE_SEVERAL_HOSTS = Code(
    "SQLITE_SEVERAL_HOSTS",
    Level.WARNING,
    "The saga database is an SQLite file and there are {nodes} nodes: workers on other hosts "
    "have another file or, over a network file system, a damaged one.",
    "Use PostgreSQL or MariaDB when workers run on more than one host.",
)
SQLITE_ONE_WRITER = Code(
    "SQLITE_ONE_WRITER",
    Level.INFO,
    "The saga database is an SQLite file and {concurrency} processes write to it, one at a "
    "time: fine on one host, but slower than a server.",
    "Use PostgreSQL or MariaDB when throughput matters.",
)


def place(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Who can see the database, and who writes to it."""
    database, pool = facts.database, facts.pool
    if database is None or database.dialect != "sqlite":
        return
    if database.in_memory:
        # With eager tasks, one process does it all.
        if facts.role is Role.WORKER or not app.conf.task_always_eager:
            yield SQLITE_IN_MEMORY.found()
        return
    if facts.configured.nodes > 1:
        yield SQLITE_SEVERAL_HOSTS.found(nodes=facts.configured.nodes)
    if pool.kind == "prefork" and pool.concurrency > 1:
        yield SQLITE_ONE_WRITER.found(concurrency=pool.concurrency)


CODES = (SQLITE_IN_MEMORY, SQLITE_SEVERAL_HOSTS, SQLITE_ONE_WRITER)
CHECKS = (place,)
