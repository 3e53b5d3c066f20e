"""Gathers the facts: reads the app, and asks broker and database, bounded in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import celery
from celery import Celery
from celery.backends.base import DisabledBackend
from celery.backends.rpc import RPCBackend

from celery_saga.runtime.guard.ask_broker import ask_broker
from celery_saga.runtime.guard.ask_database import Connect, ask_database
from celery_saga.runtime.guard.bounded import Unasked, ask
from celery_saga.runtime.guard.facts import (
    Asks,
    ConfiguredFacts,
    DatabaseFacts,
    Facts,
    PoolFacts,
    ResultFacts,
    Role,
    RouteFacts,
    SchemaState,
)
from celery_saga.runtime.guard.see_pool import see_pool
from celery_saga.runtime.guard.see_routes import see_routes
from celery_saga.runtime.guard.see_tasks import see_tasks
from celery_saga.store.legible import Legible

__all__ = ["gather"]

_MOST_QUEUES = 50


def _utc_now() -> datetime:
    return datetime.now(UTC)


def gather(
    app: Celery,
    *,
    role: Role = Role.CLIENT,
    asks: Asks = Asks.ALL,
    pool: str | type | None = None,
    concurrency: int | None = None,
    max_tasks_per_child: int | None = None,
    engine_pools: int | None = None,
    nodes: int = 1,
    connections_per_process: int = 1,
    queues: Iterable[str] | None = None,
    database_url: str | None = None,
    engine_options: Mapping[str, object] | None = None,
    connect: Connect | None = None,
    schema_state: Callable[[], SchemaState | str] | None = None,
    legible: Callable[[], Legible] | None = None,
    remote_steps: Iterable[str] = (),
    step_timeouts_s: Mapping[str, float] | None = None,
    now: Callable[[], datetime] = _utc_now,
    timeout_s: float = 2.0,
) -> Facts:
    """Everything that the checks look at. A server that is down is a fact, not an error.

    Args:
        role, asks: a worker's main process, or any other process; which servers are asked.
        pool, concurrency, max_tasks_per_child, queues: the worker's; by default the app's.
        engine_pools: SQLAlchemy pools with open connections before the worker forked; None: counted now.
        nodes, connections_per_process: workers like this on the database, from 1; connections that each process keeps.
        database_url, engine_options, connect: by default the settings, a URL of "" is none; opens a DB-API connection.
        schema_state, legible: answer "absent", "outdated", "current" or "newer"; which live runs can be read.
        remote_steps, step_timeouts_s: tasks that run as steps on workers without celery_saga; the longest time-out of
            each task that is used as a step, in seconds.
        now: this host's clock, aware UTC.
        timeout_s: the most that each question over the network may take, in seconds.
    """
    configured = ConfiguredFacts(
        nodes=nodes,
        connections_per_process=connections_per_process,
        engine_options=dict(engine_options or app.conf.get("saga_engine_options") or {}),
        remote_steps=frozenset(remote_steps),
        step_timeouts_s=dict(step_timeouts_s or {}),
        schema=_schema(schema_state, timeout_s),
        legible=_legible(legible, timeout_s),
    )
    url = app.conf.get("saga_database_url") if database_url is None else database_url
    told: dict[str, Any] = {"connect": connect, "now": now, "timeout_s": timeout_s, "asks": asks is Asks.ALL}
    seen = see_pool(app, role, pool, concurrency, max_tasks_per_child, engine_pools)
    listens_to = _listens_to(app, role, queues)
    return _facts(app, role, seen, ask_database(url, **told) if url else None, configured, listens_to, asks, timeout_s)


def _facts(
    app: Celery,
    role: Role,
    pool: PoolFacts,
    database: DatabaseFacts | None,
    configured: ConfiguredFacts,
    listens_to: frozenset[str] | None,
    asks: Asks,
    timeout_s: float,
) -> Facts:
    routes = see_routes(app, timeout_s=timeout_s)
    return Facts(
        role=role,
        celery_version=celery.__version__,
        broker=ask_broker(
            app, queues=_asked_queues(routes, listens_to), timeout_s=timeout_s, asks=asks is not Asks.NOBODY
        ),
        database=database,
        pool=pool,
        tasks=see_tasks(app),
        routes=routes,
        listens_to=listens_to,
        configured=configured,
        results=_results(app, timeout_s),
    )


def _listens_to(app: Celery, role: Role, queues: Iterable[str] | None) -> frozenset[str] | None:
    if queues is not None:
        return frozenset(queues)
    return frozenset(app.amqp.queues.consume_from) if role is Role.WORKER else None


def _asked_queues(routes: tuple[RouteFacts, ...], listens_to: frozenset[str] | None) -> list[str]:
    # Those of our own tasks come first, so that they are asked about before any time-out.
    names = [route.queue for route in routes if route.queue] + sorted(listens_to or ())
    return list(dict.fromkeys(names))[:_MOST_QUEUES]


def _results(app: Celery, timeout_s: float) -> ResultFacts:
    answer = ask(lambda: app.backend, timeout_s=timeout_s)
    if isinstance(answer, Unasked):
        return ResultFacts(unusable=answer.reason)
    return ResultFacts(
        disabled=isinstance(answer.value, DisabledBackend),
        to_caller_only=isinstance(answer.value, RPCBackend),
    )


def _legible(legible: Callable[[], Legible] | None, timeout_s: float) -> Legible | Unasked | None:
    if legible is None:
        return None
    answer = ask(legible, timeout_s=timeout_s)
    return answer if isinstance(answer, Unasked) else answer.value


def _schema(schema_state: Callable[[], SchemaState | str] | None, timeout_s: float) -> SchemaState | Unasked | None:
    if schema_state is None:
        return None
    answer = ask(lambda: SchemaState(schema_state()), timeout_s=timeout_s)
    return answer if isinstance(answer, Unasked) else answer.value
