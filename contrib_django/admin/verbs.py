"""What people may do to one run: what it is called, when it is offered, what is asked, what it will do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from celery_saga.client.handle import RunHandle
from celery_saga.core.records import RunRecord
from celery_saga.core.restart import is_restartable
from celery_saga.core.retention import PURGEABLE
from celery_saga.core.status import RunStatus
from celery_saga.engine.engine import Engine
from celery_saga.engine.looking import looking

__all__ = ["VERBS", "Verb", "offered", "permission_verb", "tried"]

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be done.

    Args:
        name: of its page, and of its permission in `contrib_django.permissions.PERMISSIONS`.
        label: on buttons.
        does: what it will do, for the page that asks.
        is_offered: whether it makes sense for a run; whether it is allowed, only the engine says.
        of_step: it is done to a step of the run.
        needs_reason: why must be said.
        is_grave: it takes something back, or cannot be taken back.
        fields: names of what else is asked, of `contrib_django.admin.asking.FIELDS`.
    """

    name: str
    label: str
    does: str
    is_offered: Callable[[RunRecord], bool]
    of_step: bool = False
    needs_reason: bool = False
    is_grave: bool = False
    fields: tuple[str, ...] = ()

    def do(self, handle: RunHandle[Any], told: Told, *, reason: str, by: str, step: str | None) -> str:
        """Do it; what to tell then.

        Args:
            told: the values of `fields`.
        Raises:
            SagaError: it was refused; nothing was changed.
        """
        return _DOES[self.name](handle, told, step, {"reason": reason, "by": by})


def _is_forward(run: RunRecord) -> bool:
    return not run.status.is_end and (run.outcome is None or run.restart) and not run.pivoted


def _is_suspended(run: RunRecord) -> bool:
    return run.status is RunStatus.SUSPENDED


def _can_compensate(run: RunRecord) -> bool:
    if _is_suspended(run):
        return run.outcome is None and not run.restart
    return run.status is RunStatus.COMPLETED or (run.status is RunStatus.CANCELLED and run.skip_undos)


def _is_live(run: RunRecord) -> bool:
    return not run.status.is_end


def _always(run: RunRecord) -> bool:
    return True


VERBS: Final[Mapping[str, Verb]] = {
    verb.name: verb
    for verb in (
        Verb("signal", "Send a signal", "The run gets the signal; a wait for it goes on.", _is_live),
        Verb(
            "resume",
            "Resume",
            "The run is taken back into work where it was. What it was parked for should be mended first.",
            lambda run: _is_suspended(run) and run.reason != "undo_unknown",
        ),
        Verb(
            "retry",
            "Retry",
            "The run starts over from the earliest of the named, the failed and the first undone step, in a new "
            "generation. Steps behind it that are done are undone first.",
            lambda run: is_restartable(run.status) and run.parent_id is None,
            fields=("from_step",),
        ),
        Verb(
            "suspend",
            "Suspend",
            "The run is parked until a person resumes it. What runs now ends and is recorded; nothing else starts.",
            lambda run: not run.status.is_end and not _is_suspended(run),
        ),
        Verb(
            "cancel",
            "Cancel",
            "The run goes no further, and what it has done is undone, last step first. Needs no worker to be decided.",
            _is_forward,
            is_grave=True,
            fields=("compensate",),
        ),
        Verb(
            "compensate",
            "Undo the run",
            "Everything that the run has done and that has an undo is undone, last step first.",
            _can_compensate,
            needs_reason=True,
            is_grave=True,
        ),
        Verb(
            "purge",
            "Purge",
            "The run is deleted with its children, steps, history and signals. This cannot be taken back. Its key "
            "stays as a row without payloads, unless you say otherwise, so that the same start does not run again.",
            lambda run: run.status in PURGEABLE and run.purged_at is None,
            needs_reason=True,
            is_grave=True,
            fields=("keep_keys",),
        ),
        Verb(
            "skip",
            "Take for done",
            "The step is taken for done without being executed; the body gets the result that you give.",
            lambda run: not run.status.is_end,
            of_step=True,
            needs_reason=True,
            is_grave=True,
            fields=("result",),
        ),
        Verb(
            "retry_undo",
            "Retry the undo",
            "The undo is executed again now, with fresh counts; with other arguments where you give them.",
            _always,
            of_step=True,
            fields=("args", "kwargs"),
        ),
        Verb(
            "undo_done",
            "Mark the undo done",
            "The undo is closed without being executed, because a person has done it elsewhere.",
            _always,
            of_step=True,
            needs_reason=True,
            is_grave=True,
        ),
        Verb(
            "undo_skipped",
            "Skip the undo",
            "The undo is closed without being executed: what the step did stays as it is.",
            _always,
            of_step=True,
            needs_reason=True,
            is_grave=True,
        ),
    )
}
"""In the order in which they are shown."""

_PERMISSION_OF = {"undo_done": "resolve_undo", "undo_skipped": "resolve_undo"}


def permission_verb(name: str) -> str:
    """Under which verb of PERMISSIONS a verb is allowed."""
    return _PERMISSION_OF.get(name, name)


def offered(run: RunRecord, allows: Callable[[str], bool]) -> list[Verb]:
    """The verbs for the whole run that make sense for it and that are allowed."""
    found = [verb for verb in VERBS.values() if not verb.of_step and verb.is_offered(run)]
    return [verb for verb in found if allows(permission_verb(verb.name))]


def tried(engine: Engine, verb: Verb, run: RunRecord, step: str | None) -> tuple[str, bool]:
    """The status that a run would have afterwards, and whether nothing would have changed; nothing is written.

    Raises:
        SagaError: it would be refused now.
    """
    looks = looking(engine)
    name = {"undo_done": "resolve_undo", "undo_skipped": "resolve_undo"}.get(verb.name, verb.name)
    if name == "cancel":
        done = looks.cancelling(run.id, compensate=True, reason="", by=None)
        return done.new.run.status.value, done.new is done.old
    if name in ("signal", "purge"):
        return run.status.value, False
    after: RunRecord = getattr(looks, name)(run.id, *(() if step is None else (step,)))
    return after.status.value, False


def _cancel(handle: RunHandle[Any], told: Told, step: str | None, why: Told) -> str:
    answer = handle.cancel(compensate=told.get("compensate", True), **why)
    if answer["cancelled"]:
        return f"The run is cancelled; it is {answer['status']} now."
    return f"Nothing was changed: the run is {answer['status']}, and cannot be cancelled any more."


def _plain(method: str, said: str) -> Callable[[RunHandle[Any], Told, str | None, Told], str]:
    def do(handle: RunHandle[Any], told: Told, step: str | None, why: Told) -> str:
        status = getattr(handle, method)(**why).status.value
        return f"{said} Its status is {status} now."

    return do


def _retry(handle: RunHandle[Any], told: Told, step: str | None, why: Told) -> str:
    after = handle.retry(told.get("from_step") or None, **why)
    return f"The run starts over, in generation {after.generation}."


def _skip(handle: RunHandle[Any], told: Told, step: str | None, why: Told) -> str:
    handle.skip(str(step), told.get("result"), **why)
    return f"Step {step} is taken for done."


def _retry_undo(handle: RunHandle[Any], told: Told, step: str | None, why: Told) -> str:
    handle.retry_undo(str(step), args=told.get("args"), kwargs=told.get("kwargs"), **why)
    return f"The undo of {step} is tried again."


def _close(outcome: str, said: str) -> Callable[[RunHandle[Any], Told, str | None, Told], str]:
    def do(handle: RunHandle[Any], told: Told, step: str | None, why: Told) -> str:
        handle.resolve_undo(str(step), outcome=outcome, **why)  # type: ignore[arg-type]  # one of the two
        return f"The undo of {step} is {said}."

    return do


_DOES: Mapping[str, Callable[[RunHandle[Any], Told, str | None, Told], str]] = {
    "cancel": _cancel,
    "suspend": _plain("suspend", "The run is suspended."),
    "resume": _plain("resume", "The run is taken up again."),
    "compensate": _plain("compensate", "The run is being undone."),
    "retry": _retry,
    "skip": _skip,
    "retry_undo": _retry_undo,
    "undo_done": _close("done", "marked done"),
    "undo_skipped": _close("skipped", "skipped"),
}
