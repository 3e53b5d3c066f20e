"""Checks of the worker's pool: limits, green threads, start method, prefetch, eager mode."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts, Role
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed

__all__ = ["CHECKS", "CODES"]

_GREEN = ("gevent", "eventlet")
_LONG_S = 300.0

ALWAYS_EAGER_IN_WORKER = Code(
    "ALWAYS_EAGER_IN_WORKER",
    Level.ERROR,
    "task_always_eager is on in a worker: whatever a task sends runs inside that task, and no "
    "other process takes part.",
    "Set `task_always_eager` in tests only.",
)
POOL_IGNORES_TIME_LIMITS = Code(
    "POOL_IGNORES_TIME_LIMITS",
    Level.WARNING,
    "The {pool} pool does not enforce {what}, which these have: {tasks}. A step that goes past "
    "its limit keeps running; its lease ends at the step's time-out, and another attempt may "
    "start beside it.",
    "Use the prefork pool for them, or give their I/O time-outs of their own.",
)
GREEN_POOL_NOT_PATCHED = Code(
    "GREEN_POOL_NOT_PATCHED",
    Level.ERROR,
    "The {pool} pool runs without {pool}'s monkey patches: every wait on a socket or a lock "
    "stops all tasks, and leases are not renewed meanwhile.",
    "Start it as `celery worker -P {pool}`, or patch before anything else is imported.",
)
PSYCOPG2_UNDER_GREEN_POOL = Code(
    "PSYCOPG2_UNDER_GREEN_POOL",
    Level.ERROR,
    "psycopg2 does not yield to {pool}: each statement on the saga database stops all tasks of the worker.",
    "Use postgresql+psycopg:// (psycopg 3), or call `psycogreen.{pool}.patch_psycopg()`.",
)
MYSQLCLIENT_UNDER_GREEN_POOL = Code(
    "MYSQLCLIENT_UNDER_GREEN_POOL",
    Level.ERROR,
    "mysqlclient does not yield to {pool}: each statement on the saga database stops all tasks of the worker.",
    "Use mysql+pymysql://, which is written in Python and yields.",
)
SPAWN_START_METHOD = Code(
    "SPAWN_START_METHOD",
    Level.INFO,
    "Worker processes are started by {method}: each builds the app anew from its "
    "configuration, so that options given to CelerySaga only while the main process ran are "
    "not there.",
    "Give all saga options at import, or as `saga_*` settings.",
)
SPAWN_WITH_MAX_TASKS = Code(
    "SPAWN_WITH_MAX_TASKS",
    Level.WARNING,
    "Worker processes are started by {method} and replaced after {tasks} tasks: each "
    "replacement imports the whole application again, while steps wait.",
    "Raise `worker_max_tasks_per_child`, or use `worker_max_memory_per_child`.",
)
PREFETCH_BEHIND_LONG_STEPS = Code(
    "PREFETCH_BEHIND_LONG_STEPS",
    Level.WARNING,
    "A worker reserves {reserved}, and these may take up to {longest_s:g} s: {tasks}. A step's "
    "message waits in a busy worker although another one is idle.",
    "Set `worker_prefetch_multiplier = 1`, or run the long ones on a queue of their own.",
)
REVOKES_IN_MEMORY = Code(
    "REVOKES_IN_MEMORY",
    Level.INFO,
    "Without `worker_state_db` a worker forgets revoked task ids when it restarts. Cancelling a "
    "run is a row in the database and is not forgotten.",
    "Cancel runs with `handle.cancel()` or `celery saga cancel` rather than by revoking ids.",
)


def eager(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Eager mode belongs into tests."""
    if facts.role is Role.WORKER and app.conf.task_always_eager:
        yield ALWAYS_EAGER_IN_WORKER.found()


def time_limits(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Limits that the pool does not know."""
    kind = facts.pool.kind
    hard = [task.name for task in facts.tasks if task.time_limit_s is not None]
    soft = [task.name for task in facts.tasks if task.soft_time_limit_s is not None]
    if kind in ("threads", "solo", "eventlet") and hard + soft:
        yield POOL_IGNORES_TIME_LIMITS.found(pool=kind, what="time limits", tasks=listed({*hard, *soft}))
    elif kind == "gevent" and hard:
        what = "hard time limits on code that does not yield, nor soft ones at all"
        yield POOL_IGNORES_TIME_LIMITS.found(pool=kind, what=what, tasks=listed({*hard, *soft}))
    elif kind == "gevent" and soft:
        yield POOL_IGNORES_TIME_LIMITS.found(pool=kind, what="soft time limits", tasks=listed(soft))


def green(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Green threads need everything that waits to yield."""
    pool = facts.pool
    if pool.kind not in _GREEN:
        return
    # Only the worker itself is patched; a client says nothing about it.
    if facts.role is Role.WORKER and pool.patched is False:
        yield GREEN_POOL_NOT_PATCHED.found(pool=pool.kind)
    driver = facts.database.driver if facts.database is not None else ""
    if driver == "psycopg2" and not pool.psycopg2_waits_cooperatively:
        yield PSYCOPG2_UNDER_GREEN_POOL.found(pool=pool.kind)
    if driver == "mysqldb":
        yield MYSQLCLIENT_UNDER_GREEN_POOL.found(pool=pool.kind)


def start_method(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Processes that do not inherit the app."""
    pool = facts.pool
    if pool.kind != "prefork" or pool.start_method == "fork":
        return
    yield SPAWN_START_METHOD.found(method=pool.start_method)
    if pool.max_tasks_per_child is not None:
        yield SPAWN_WITH_MAX_TASKS.found(method=pool.start_method, tasks=pool.max_tasks_per_child)


def prefetch(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Messages that wait behind a long step."""
    multiplier = int(app.conf.worker_prefetch_multiplier)
    limits = {task.name: task.time_limit_s or 0.0 for task in facts.tasks}
    for name, limit_s in facts.configured.step_timeouts_s.items():
        limits[name] = max(limit_s, limits.get(name, 0.0))
    long = {name: limit_s for name, limit_s in limits.items() if limit_s >= _LONG_S}
    if multiplier != 1 and long:
        yield PREFETCH_BEHIND_LONG_STEPS.found(
            reserved=_reserved(multiplier), longest_s=max(long.values()), tasks=listed(long)
        )


def _reserved(multiplier: int) -> str:
    setting = f"(`worker_prefetch_multiplier = {multiplier}`)"
    if multiplier == 0:
        return f"messages without limit {setting}"
    return f"{multiplier} messages for each slot {setting}"


def revokes(app: Celery, facts: Facts) -> Iterator[Finding]:
    """What becomes of revoked ids."""
    if facts.role is Role.WORKER and not app.conf.worker_state_db:
        yield REVOKES_IN_MEMORY.found()


CODES = (
    ALWAYS_EAGER_IN_WORKER,
    POOL_IGNORES_TIME_LIMITS,
    GREEN_POOL_NOT_PATCHED,
    PSYCOPG2_UNDER_GREEN_POOL,
    MYSQLCLIENT_UNDER_GREEN_POOL,
    SPAWN_START_METHOD,
    SPAWN_WITH_MAX_TASKS,
    PREFETCH_BEHIND_LONG_STEPS,
    REVOKES_IN_MEMORY,
)
CHECKS = (eager, time_limits, green, start_method, prefetch, revokes)
