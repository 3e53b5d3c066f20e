"""Checks of the saga database's server: reachable, writable, durable, roomy, and on time."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.bounded import Unasked
from celery_saga.runtime.guard.facts import Facts, ServerFacts
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed

__all__ = ["CHECKS", "CODES"]

_CLOCK_S = 5.0
# SELECT ... FOR UPDATE SKIP LOCKED
_OLDEST = {"PostgreSQL": (9, 5), "MariaDB": (10, 6), "MySQL": (8, 0)}

DATABASE_URL_ABSENT = Code(
    "DATABASE_URL_ABSENT",
    Level.ERROR,
    "`saga_database_url` is not set: there is no place to keep runs in.",
    "Set `saga_database_url`, for instance to postgresql://user@host/database.",
)
DATABASE_URL_INVALID = Code(
    "DATABASE_URL_INVALID",
    Level.ERROR,
    "`saga_database_url` cannot be used: {reason}.",
    "Write it as dialect://user:password@host:port/database.",
)
DATABASE_DRIVER_MISSING = Code(
    "DATABASE_DRIVER_MISSING",
    Level.ERROR,
    "The driver {driver!r} of `saga_database_url` needs the module {module!r}, which is not installed.",
    "Install it, or name another driver: dialect+driver://...",
)
DATABASE_UNREACHABLE = Code(
    "DATABASE_UNREACHABLE",
    Level.ERROR,
    "The saga database cannot be reached ({reason}), so nothing is known about its "
    "connections, clock and settings. Without it no run starts or goes on; none is lost.",
    "Start it or correct `saga_database_url`, then check again.",
)
DATABASE_NOT_ASKED = Code(
    "DATABASE_NOT_ASKED",
    Level.WARNING,
    "The saga database was reached, but could not be asked ({reason}): nothing is known about "
    "its connections, clock and settings.",
    "See that the saga user may read the server's settings, then check again.",
)
DATABASE_READ_ONLY = Code(
    "DATABASE_READ_ONLY",
    Level.ERROR,
    "The saga database takes no writes here: it is a replica, or set to read only.",
    "Point `saga_database_url` to the primary, with a user that may write.",
)
DATABASE_NOT_DURABLE = Code(
    "DATABASE_NOT_DURABLE",
    Level.WARNING,
    "The saga database may forget committed transactions when it crashes ({settings}): a step "
    "that was recorded as done would run again, and a started run could vanish.",
    "Switch the settings to their durable values, at least for the saga user.",
)
DATABASE_TOO_OLD = Code(
    "DATABASE_TOO_OLD",
    Level.ERROR,
    "{product} {version} has no SKIP LOCKED, which celery_saga needs from {oldest} on.",
    "Upgrade the database server.",
)
DATABASE_CLOCK = Code(
    "DATABASE_CLOCK",
    Level.WARNING,
    "The database's clock is {ahead_s:+.1f} s off this host's. Leases and timers go by the "
    "database's clock; what user code computes from its own (an instant for `sleep_until`, the "
    "start of a schedule) fires that much early or late.",
    "Run NTP on both machines.",
)
DATABASE_CONNECTIONS_EXCEEDED = Code(
    "DATABASE_CONNECTIONS_EXCEEDED",
    Level.ERROR,
    "The workers may open {needed} connections to the saga database ({nodes} nodes of {each}), "
    "but it allows {most}: claims and checkpoints will fail under load.",
    "Lower the concurrency, raise the server's limit, or put PgBouncer in between.",
)
DATABASE_CONNECTIONS_SCARCE = Code(
    "DATABASE_CONNECTIONS_SCARCE",
    Level.WARNING,
    "The workers may open {needed} connections to the saga database ({nodes} nodes of {each}); "
    "it allows {most}, of which {used} are in use now. (Some of these may be the workers' own.)",
    "Look who uses the others, raise the server's limit, or put PgBouncer in between.",
)
MARIADB_BINLOG_STATEMENT = Code(
    "MARIADB_BINLOG_STATEMENT",
    Level.ERROR,
    "The binary log is written with binlog_format = STATEMENT, under which InnoDB refuses "
    "writes at READ COMMITTED, which celery_saga uses: nothing can be stored.",
    "Set `binlog_format` to ROW or MIXED.",
)


def reachable(app: Celery, facts: Facts) -> Iterator[Finding]:
    """There is a database that can be talked to."""
    database = facts.database
    if database is None:
        yield DATABASE_URL_ABSENT.found()
    elif database.invalid is not None:
        yield DATABASE_URL_INVALID.found(reason=database.invalid)
    elif database.missing_module is not None:
        yield DATABASE_DRIVER_MISSING.found(driver=database.driver, module=database.missing_module)
    elif database.unreachable is not None:
        yield DATABASE_UNREACHABLE.found(reason=database.unreachable)
    elif isinstance(database.server, Unasked):
        yield DATABASE_NOT_ASKED.found(reason=database.server.reason)


def server(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The server writes, keeps what it wrote, and knows the time."""
    server = _server(facts)
    if server is None:
        return
    oldest = _OLDEST[server.product]
    if server.version and server.version < oldest:
        yield DATABASE_TOO_OLD.found(product=server.product, version=_dotted(server.version), oldest=_dotted(oldest))
    if server.read_only:
        yield DATABASE_READ_ONLY.found()
    if server.not_durable:
        yield DATABASE_NOT_DURABLE.found(settings=listed(server.not_durable))
    if server.statement_binlog:
        yield MARIADB_BINLOG_STATEMENT.found()
    if abs(server.clock_ahead_s) > _CLOCK_S:
        yield DATABASE_CLOCK.found(ahead_s=server.clock_ahead_s)


def connections(app: Celery, facts: Facts) -> Iterator[Finding]:
    """All workers together fit into what the server allows."""
    server = _server(facts)
    if server is None or server.max_connections is None:
        return
    nodes, each = facts.configured.nodes, _each_node(facts)
    numbers = {
        "needed": nodes * each,
        "nodes": nodes,
        "each": each,
        "most": server.max_connections,
        "used": server.connections_in_use,
    }
    if numbers["needed"] > server.max_connections:
        yield DATABASE_CONNECTIONS_EXCEEDED.found(**numbers)
    elif numbers["needed"] > server.max_connections - server.connections_in_use:
        yield DATABASE_CONNECTIONS_SCARCE.found(**numbers)


def _each_node(facts: Facts) -> int:
    sweeper = 1
    pool, configured = facts.pool, facts.configured
    if pool.kind in ("prefork", "solo"):
        return pool.concurrency * configured.connections_per_process + sweeper
    # One process: its threads or greenlets share the engine's pool, which may bound them.
    size, overflow = (configured.engine_options.get(k) for k in ("pool_size", "max_overflow"))
    bounded = isinstance(size, int) and size > 0 and isinstance(overflow, int) and overflow >= 0
    most = int(str(size)) + int(str(overflow)) if bounded else pool.concurrency
    return min(most, pool.concurrency) + sweeper


def _server(facts: Facts) -> ServerFacts | None:
    server = facts.database.server if facts.database is not None else None
    return server if isinstance(server, ServerFacts) else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


CODES = (
    DATABASE_URL_ABSENT,
    DATABASE_URL_INVALID,
    DATABASE_DRIVER_MISSING,
    DATABASE_UNREACHABLE,
    DATABASE_NOT_ASKED,
    DATABASE_READ_ONLY,
    DATABASE_NOT_DURABLE,
    DATABASE_TOO_OLD,
    DATABASE_CLOCK,
    DATABASE_CONNECTIONS_EXCEEDED,
    DATABASE_CONNECTIONS_SCARCE,
    MARIADB_BINLOG_STATEMENT,
)
CHECKS = (reachable, server, connections)
