"""Checks of Redis as a broker: the visibility time-out, eviction and persistence."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.bounded import Unasked
from celery_saga.runtime.guard.facts import Facts, RedisFacts
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed

__all__ = ["CHECKS", "CODES"]

_HOW = (
    "Set `broker_transport_options['visibility_timeout']` above {longest_s:g} s, to the same "
    "value in every process that uses this broker, "
)

REDIS_VISIBILITY_TIMEOUT = Code(
    "REDIS_VISIBILITY_TIMEOUT",
    Level.ERROR,
    "Redis delivers an unacked message again after visibility_timeout = {visibility_s:g} s, but "
    "late-acking tasks may run longer (up to {longest_s:g} s) and would run twice: {tasks}. "
    "As steps they are acked when accepted and run once.",
    _HOW + "or lower the time limits of these tasks.",
)
REDIS_VISIBILITY_NO_LIMIT = Code(
    "REDIS_VISIBILITY_NO_LIMIT",
    Level.INFO,
    "Late-acking tasks without a time limit run twice when they take longer than "
    "visibility_timeout = {visibility_s:g} s: {tasks}. As steps they run once.",
    "Give these tasks a `time_limit` below visibility_timeout.",
)
REDIS_VISIBILITY_PREFETCH = Code(
    "REDIS_VISIBILITY_PREFETCH",
    Level.WARNING,
    "A message that a worker has prefetched behind one of these waits up to {longest_s:g} s, "
    "longer than visibility_timeout = {visibility_s:g} s, and is delivered twice: {tasks}. A "
    "step's second message is refused; any other task runs twice.",
    _HOW + "or lower the limits of these tasks and steps.",
)
REDIS_VISIBILITY_ETA = Code(
    "REDIS_VISIBILITY_ETA",
    Level.WARNING,
    "Tasks are sent with a countdown up to {longest_s:g} s, longer than visibility_timeout = "
    "{visibility_s:g} s: while one worker holds them, others get them too ({tasks}). Timers "
    "and retries of sagas are rows in the database and are not concerned.",
    _HOW + "or shorten the delays.",
)
REDIS_VISIBILITY_ELSEWHERE = Code(
    "REDIS_VISIBILITY_ELSEWHERE",
    Level.INFO,
    "visibility_timeout is set to {visibility_s:g} s here. Whether every other process has the "
    "same value cannot be seen from here; the smallest one counts.",
    "Configure clients, beat and all workers from one source.",
)
REDIS_EVICTION = Code(
    "REDIS_EVICTION",
    Level.WARNING,
    "Redis may evict keys when it has no room left (maxmemory-policy = {policy}, maxmemory = "
    "{maxmemory_bytes} bytes): queues or results vanish silently. Sagas recover; other tasks "
    "are lost.",
    "Set `maxmemory-policy noeviction` on the broker.",
)
REDIS_NOT_PERSISTENT = Code(
    "REDIS_NOT_PERSISTENT",
    Level.INFO,
    "Redis keeps neither snapshots nor an append-only file: a restart loses all messages. "
    "Sagas survive it, since the sweeper sends again; other tasks are lost.",
    "Set `appendonly yes` if tasks outside sagas matter.",
)
REDIS_NOT_ASKED = Code(
    "REDIS_NOT_ASKED",
    Level.INFO,
    "Redis answers, but tells neither its memory policy nor its persistence ({reason}): this cannot be seen from here.",
    "Allow `CONFIG GET` or `INFO`, or look at the provider's settings: noeviction is needed.",
)


def visibility(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Whatever may hold a message for longer than the visibility time-out."""
    visibility_s = facts.broker.visibility_timeout_s
    if visibility_s is None:
        return
    late = {task.name: task.time_limit_s for task in facts.tasks if task.acks_late and task.time_limit_s is not None}
    early = {
        task.name: task.time_limit_s for task in facts.tasks if not task.acks_late and task.time_limit_s is not None
    }
    steps = _step_limits_s(app, facts)
    waits = early | {name: max(limit, early.get(name, 0.0)) for name, limit in steps.items()}
    for code, limits in (
        (REDIS_VISIBILITY_TIMEOUT, late),
        (REDIS_VISIBILITY_PREFETCH, waits),
        (REDIS_VISIBILITY_ETA, _countdowns_s(app, facts)),
    ):
        over = {name: limit for name, limit in limits.items() if limit >= visibility_s}
        if over:
            yield code.found(visibility_s=visibility_s, longest_s=max(over.values()), tasks=listed(over))
    endless = [task.name for task in facts.tasks if task.acks_late and task.time_limit_s is None]
    if endless:
        yield REDIS_VISIBILITY_NO_LIMIT.found(visibility_s=visibility_s, tasks=listed(endless))
    if facts.broker.visibility_timeout_given:
        yield REDIS_VISIBILITY_ELSEWHERE.found(visibility_s=visibility_s)


def _step_limits_s(app: Celery, facts: Facts) -> dict[str, float]:
    limits = dict(facts.configured.step_timeouts_s)
    if default := app.conf.get("saga_step_timeout"):
        limits["steps by saga_step_timeout"] = _seconds(default)
    return limits


def _countdowns_s(app: Celery, facts: Facts) -> dict[str, float]:
    delays = {task.name: task.longest_retry_delay_s for task in facts.tasks}
    for name, entry in (app.conf.beat_schedule or {}).items():
        options = entry.get("options") if isinstance(entry, dict) else None
        countdown = (options or {}).get("countdown")
        if countdown:
            delays[f"beat entry {name}"] = _seconds(countdown)
    return delays


def _seconds(value: object) -> float:
    total = getattr(value, "total_seconds", None)
    return float(total()) if total is not None else float(str(value))


def server(app: Celery, facts: Facts) -> Iterator[Finding]:
    """What the server says of its memory and its disk."""
    redis = facts.broker.redis
    if isinstance(redis, Unasked):
        yield REDIS_NOT_ASKED.found(reason=redis.reason)
    elif isinstance(redis, RedisFacts):
        if redis.maxmemory_policy != "noeviction" and redis.maxmemory_bytes > 0:
            yield REDIS_EVICTION.found(policy=redis.maxmemory_policy, maxmemory_bytes=redis.maxmemory_bytes)
        if redis.persistent is False:
            yield REDIS_NOT_PERSISTENT.found()


CODES = (
    REDIS_VISIBILITY_TIMEOUT,
    REDIS_VISIBILITY_NO_LIMIT,
    REDIS_VISIBILITY_PREFETCH,
    REDIS_VISIBILITY_ETA,
    REDIS_VISIBILITY_ELSEWHERE,
    REDIS_EVICTION,
    REDIS_NOT_PERSISTENT,
    REDIS_NOT_ASKED,
)
CHECKS = (visibility, server)
