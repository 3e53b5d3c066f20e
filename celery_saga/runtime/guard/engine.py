"""Checks of the database engine's options, and of connections that a fork would share."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts
from celery_saga.runtime.guard.finding import Code, Finding, Level

__all__ = ["CHECKS", "CODES"]

ENGINE_POOL_ACROSS_FORKS = Code(
    "ENGINE_POOL_ACROSS_FORKS",
    Level.ERROR,
    "`saga_engine_options` holds a ready pool of connections ({options}): every worker process "
    "would inherit the same sockets, and answers would reach the wrong process.",
    "Give `poolclass`, `pool_size` and `max_overflow` instead; each process makes its own pool.",
)
ENGINE_STATIC_POOL = Code(
    "ENGINE_STATIC_POOL",
    Level.ERROR,
    "`saga_engine_options` asks for a {poolclass}, whose one connection all threads share: "
    "their transactions would mix, and half a checkpoint could be committed.",
    "Remove `poolclass`; use NullPool to keep no connection open.",
)
ENGINE_CREATOR = Code(
    "ENGINE_CREATOR",
    Level.WARNING,
    "`saga_engine_options` has a `creator`: it must open a new connection at each call, since "
    "one that it keeps would be shared by all worker processes.",
    "Use `connect_args`, or see that `creator` returns a new connection each time.",
)
ENGINE_ISOLATION_LEVEL = Code(
    "ENGINE_ISOLATION_LEVEL",
    Level.ERROR,
    "`saga_engine_options` sets isolation_level {level!r}, but celery_saga locks first and "
    "reads afterwards, which is only right at READ COMMITTED.",
    "Remove `isolation_level` from `saga_engine_options`.",
)
ENGINE_BEFORE_FORK = Code(
    "ENGINE_BEFORE_FORK",
    Level.WARNING,
    "{count} SQLAlchemy connection pools of this application hold open connections in the "
    "worker's main process: the processes forked from it will share their sockets.",
    "Call `engine.dispose(close=False)` in `worker_process_init`, or open no connection while modules are imported.",
)


def options(app: Celery, facts: Facts) -> Iterator[Finding]:
    """What the user gave for the saga engine."""
    given = facts.configured.engine_options
    if given.get("pool") is not None:
        yield ENGINE_POOL_ACROSS_FORKS.found(options="pool")
    if given.get("creator") is not None:
        yield ENGINE_CREATOR.found()
    poolclass = getattr(given.get("poolclass"), "__name__", str(given.get("poolclass")))
    in_memory = facts.database is not None and facts.database.in_memory
    if poolclass == "StaticPool" and not in_memory:
        yield ENGINE_STATIC_POOL.found(poolclass=poolclass)
    yield from _isolation_level(facts)


def _isolation_level(facts: Facts) -> Iterator[Finding]:
    level = str(facts.configured.engine_options.get("isolation_level") or "")
    sqlite = facts.database is not None and facts.database.dialect == "sqlite"
    if level and not sqlite and level.upper().replace("_", " ") != "READ COMMITTED":
        yield ENGINE_ISOLATION_LEVEL.found(level=level)


def forks(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Connections of the user's own engines, open before the worker forks."""
    pool = facts.pool
    if pool.kind == "prefork" and pool.start_method == "fork" and pool.open_engine_pools:
        yield ENGINE_BEFORE_FORK.found(count=pool.open_engine_pools)


CODES = (
    ENGINE_POOL_ACROSS_FORKS,
    ENGINE_STATIC_POOL,
    ENGINE_CREATOR,
    ENGINE_ISOLATION_LEVEL,
    ENGINE_BEFORE_FORK,
)
CHECKS = (options, forks)
