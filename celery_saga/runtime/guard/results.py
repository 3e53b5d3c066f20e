"""Checks of the result backend, which only steps on workers without celery_saga need."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.facts import Facts
from celery_saga.runtime.guard.finding import Code, Finding, Level, listed

__all__ = ["CHECKS", "CODES"]

REMOTE_STEPS_WITHOUT_RESULTS = Code(
    "REMOTE_STEPS_WITHOUT_RESULTS",
    Level.ERROR,
    "Remote steps report their errors through the result backend, but this app has none: "
    "{tasks}. A failed one would be known as failed, without class and message.",
    "Set `result_backend` to one that both sides reach, or run the plug-in on those workers.",
)
REMOTE_STEPS_IGNORE_RESULTS = Code(
    "REMOTE_STEPS_IGNORE_RESULTS",
    Level.ERROR,
    "Remote steps report their errors through the result backend, but these tasks ignore their results: {tasks}.",
    "Set `ignore_result=False` on these tasks, or `task_ignore_result = False`.",
)
REMOTE_STEPS_RPC_RESULTS = Code(
    "REMOTE_STEPS_RPC_RESULTS",
    Level.ERROR,
    "Remote steps report their errors through the result backend, but rpc:// answers only the "
    "process that sent the task, which need not be the one that takes the report: {tasks}.",
    "Use a shared `result_backend`, such as Redis or a database.",
)
RESULT_BACKEND_UNUSABLE = Code(
    "RESULT_BACKEND_UNUSABLE",
    Level.WARNING,
    "The result backend cannot be made ({reason}). Sagas keep their results in the saga "
    "database, but tasks outside them fail when they store theirs.",
    "Install what the backend needs, or correct `result_backend`.",
)


def remote_steps(app: Celery, facts: Facts) -> Iterator[Finding]:
    """Only where there are remote steps."""
    remote = facts.configured.remote_steps
    if not remote:
        return
    if facts.results.disabled:
        yield REMOTE_STEPS_WITHOUT_RESULTS.found(tasks=listed(remote))
        return
    if facts.results.to_caller_only:
        yield REMOTE_STEPS_RPC_RESULTS.found(tasks=listed(remote))
    known = {task.name: task.ignores_result for task in facts.tasks}
    default = bool(app.conf.task_ignore_result)
    ignoring = [name for name in remote if known.get(name, default)]
    if ignoring:
        yield REMOTE_STEPS_IGNORE_RESULTS.found(tasks=listed(ignoring))


def usable(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The backend that is configured can be made."""
    if facts.results.unusable is not None:
        yield RESULT_BACKEND_UNUSABLE.found(reason=facts.results.unusable)


CODES = (
    REMOTE_STEPS_WITHOUT_RESULTS,
    REMOTE_STEPS_IGNORE_RESULTS,
    REMOTE_STEPS_RPC_RESULTS,
    RESULT_BACKEND_UNUSABLE,
)
CHECKS = (remote_steps, usable)
