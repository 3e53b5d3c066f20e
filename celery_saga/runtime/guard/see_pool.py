"""Sees how tasks are run here: pool, start method, patched modules, pools of connections."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import billiard
from celery import Celery

from celery_saga.runtime.guard.facts import PoolFacts, Role

__all__ = ["open_engine_pools", "see_pool"]

_KINDS = {"processes": "prefork", "thread": "threads"}


def see_pool(
    app: Celery,
    role: Role,
    pool: str | type | None,
    concurrency: int | None,
    max_tasks_per_child: int | None,
    engine_pools: int | None = None,
) -> PoolFacts:
    """This process and its pool; what is not given is taken from `app.conf`, or counted now."""
    kind = _kind(pool if pool is not None else app.conf.worker_pool)
    single = kind == "solo"
    if engine_pools is None:
        engine_pools = open_engine_pools() if role is Role.WORKER else 0
    return PoolFacts(
        kind=kind,
        concurrency=1 if single else _concurrency(app, concurrency),
        start_method=_start_method(app),
        max_tasks_per_child=max_tasks_per_child or app.conf.worker_max_tasks_per_child or None,
        patched=_patched(kind),
        psycopg2_waits_cooperatively=_psycopg2_waits_cooperatively(),
        open_engine_pools=engine_pools,
    )


def _kind(pool: str | type) -> str:
    # "celery.concurrency.prefork:TaskPool", the class of it, or the short name
    path = pool if isinstance(pool, str) else pool.__module__
    name = path.partition(":")[0].rpartition(".")[2]
    return _KINDS.get(name, name)


def _concurrency(app: Celery, given: int | None) -> int:
    return int(given or app.conf.worker_concurrency or os.cpu_count() or 1)


def _start_method(app: Celery) -> str:
    configured = app.conf.get("worker_pool_start_method", "fork")
    if configured != "fork":
        return str(configured)
    return str(billiard.get_start_method(allow_none=True) or "fork")


def _patched(kind: str) -> bool | None:
    if kind == "gevent":
        monkey = sys.modules.get("gevent.monkey")
        return monkey is not None and all(monkey.is_module_patched(name) for name in ("socket", "threading"))
    if kind == "eventlet":
        patcher = sys.modules.get("eventlet.patcher")
        return patcher is not None and all(patcher.is_monkey_patched(name) for name in ("socket", "thread"))
    return None


def _psycopg2_waits_cooperatively() -> bool:
    # psycogreen and everything like it works by setting this callback.
    extensions = sys.modules.get("psycopg2.extensions")
    return extensions is not None and extensions.get_wait_callback() is not None


def open_engine_pools() -> int:
    """How many SQLAlchemy pools of this process hold open connections now."""
    # Looked up, not imported: a process that has no SQLAlchemy has no such pool.
    sqlalchemy_pool: Any = sys.modules.get("sqlalchemy.pool")
    if sqlalchemy_pool is None:
        return 0
    kinds = frozenset(_kinds_of(sqlalchemy_pool.QueuePool))
    pools = [thing for thing in gc.get_objects() if type(thing) in kinds]  # a worker's start waits for this
    return sum(1 for pool in pools if pool.checkedin() + pool.checkedout() > 0)


def _kinds_of(pool: type[Any]) -> Iterator[type[Any]]:
    yield pool
    for kind in pool.__subclasses__():
        yield from _kinds_of(kind)
