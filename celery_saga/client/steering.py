"""What an operator can do to a run: cancel, suspend, resume, compensate, retry, skip, and repair undos."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from celery_saga.client.known import Signatures
from celery_saga.core import asked, codec
from celery_saga.core.focus import Extent
from celery_saga.core.records import RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.undo import task_of_undo
from celery_saga.errors import InvalidPayload

if TYPE_CHECKING:
    from celery_saga.engine.engine import Engine

__all__ = ["Steered"]


class Steered:
    """The steering half of a handle.

    Each verb raises RunNotFound where there is no such run, and InvalidPayload for a flag that is no bool, or a reason,
    a name or a key of a step that cannot be kept; nothing was written then.

    Args:
        engine: of the app that the run belongs to.
        run_id: its id.
        drive: in eager mode, executes the run after something was done to it.
    """

    def __init__(self, engine: Engine, run_id: str, drive: Callable[[str], None] | None = None) -> None:
        self._engine = engine
        self._id = run_id
        self._drive = drive
        self._seen: Snapshot | None = None

    def cancel(self, *, compensate: bool = True, reason: str = "", by: str | None = None) -> dict[str, Any]:
        """End its forward part; undos of what it did follow. Needs no worker; again: the same answer, nothing changed.

        Args:
            compensate: False: the undos are skipped, and the history says so.
            reason, by: kept in the history: why, and who.
        Returns:
            `cancelled`: it is cancelled or will be, once its shield is left and its undos are through; False where it
            has ended otherwise or has passed its pivot, and nothing was changed. `status`: its status now.
        """
        asked.check_told(f"run {self._id!r}: cancel()", reason=reason, by=by)
        compensate = asked.flag(f"run {self._id!r}: cancel()", "compensate", compensate)
        answer = self._engine.cancel(self._id, compensate=compensate, reason=reason, by=by)
        self._after()
        return answer

    def suspend(self, *, reason: str = "", by: str | None = None) -> RunRecord:
        """Park it until a person acts. What runs ends and is recorded.

        Raises:
            IllegalTransition: it has ended, or is suspended; nothing was changed.
        """
        asked.check_told(f"run {self._id!r}: suspend()", reason=reason, by=by)
        record = self._engine.suspend(self._id, reason=reason, by=by)
        self._after()
        return record

    def resume(self, *, reason: str = "", by: str | None = None) -> RunRecord:
        """Take it back into work where it was.

        Raises:
            IllegalTransition: it is not suspended; nothing was changed.
        """
        asked.check_told(f"run {self._id!r}: resume()", reason=reason, by=by)
        record = self._engine.resume(self._id, reason=reason, by=by)
        self._after()
        return record

    def compensate(self, *, reason: str = "", by: str | None = None) -> RunRecord:
        """Undo what it has done: suspended, completed, or cancelled without its undos.

        Raises:
            IllegalTransition: it is something else; nothing was changed.
        """
        asked.check_told(f"run {self._id!r}: compensate()", reason=reason, by=by)
        record = self._engine.compensate(self._id, reason=reason, by=by)
        self._after()
        return record

    def retry(self, from_step: str | None = None, *, reason: str = "", by: str | None = None) -> RunRecord:
        """Start a failed or cancelled run over from the earliest of the named, the failed and the first undone step.

        Args:
            from_step: key of a step.
        Raises:
            IllegalTransition: it is neither, or has no such step; nothing was changed.
        """
        asked.check_told(f"run {self._id!r}: retry()", reason=reason, by=by)
        if from_step is not None:
            asked.step_key(f"run {self._id!r}: retry()", from_step, "from_step")
        record = self._engine.retry(self._id, from_step=from_step, reason=reason, by=by)
        self._after()
        return record

    def skip(self, step: str, result: object = None, *, reason: str = "", by: str | None = None) -> RunRecord:
        """Take a step for done without executing it.

        Args:
            step: its key.
            result: what the body gets from it.
        Raises:
            IllegalTransition: there is no such step, or it is done; nothing was changed.
            InvalidPayload, PayloadTooLarge: the result cannot be stored; nothing was changed.
        """
        asked.check_told(f"run {self._id!r}: skip()", reason=reason, by=by)
        asked.step_key(f"run {self._id!r}: skip()", step)
        text = self._encode(result, "result")
        record = self._engine.skip(self._id, step, result_text=text, reason=reason, by=by)
        self._after()
        return record

    def retry_undo(
        self,
        step: str,
        *,
        args: list[Any] | tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> RunRecord:
        """Execute an undo again now, one that is used up or that waits for its next attempt, with fresh counts.

        Other arguments are checked against the signature of the undo's task where this process knows that. The history
        says that they were changed, and whether they were checked.

        Args:
            step: key of the step, without `!undo`.
            args, kwargs: all arguments of the undo, the step's result included; None for both: those it had.
        Raises:
            IllegalTransition: it has no undo, or that is through, runs right now or is about to; nothing was changed.
            InvalidPayload, PayloadTooLarge: the task does not take the arguments, or they cannot be stored, or are no
                list and mapping; nothing was changed.
        """
        asked.check_told(f"run {self._id!r}: retry_undo()", reason=reason, by=by)
        asked.step_key(f"run {self._id!r}: retry_undo()", step)
        if not isinstance(args, list | tuple | None) or not isinstance(kwargs, dict | None):
            raise InvalidPayload(
                f"run {self._id!r}: retry_undo() takes args= as a list and kwargs= as a mapping, got "
                f"{asked.shown(args)} and {asked.shown(kwargs)}; nothing was changed. Write "
                "args=[...] for one argument."
            )
        text = None if args is None and kwargs is None else self._encode([list(args or ()), kwargs or {}], "arguments")
        detail = None if text is None else self._told_of_arguments(step, text)
        record = self._engine.retry_undo(self._id, step, args_text=text, detail=detail, reason=reason, by=by)
        self._after()
        return record

    def resolve_undo(
        self, step: str, *, outcome: Literal["done", "skipped"] = "done", reason: str = "", by: str | None = None
    ) -> RunRecord:
        """Close an undo by hand.

        Args:
            step: key of the step, without `!undo`.
            outcome: `done`: a person did it elsewhere; `skipped`: it shall not be done.
        Raises:
            IllegalTransition: its undo is not open, or runs right now; nothing was changed.
        """
        asked.check_told(f"run {self._id!r}: resolve_undo()", reason=reason, by=by)
        asked.step_key(f"run {self._id!r}: resolve_undo()", step)
        record = self._engine.resolve_undo(self._id, step, outcome=outcome, reason=reason, by=by)
        self._after()
        return record

    def _told_of_arguments(self, step: str, args_text: str) -> str:
        """What the history tells of other arguments of an undo; they are refused where its task does not take them."""
        loaded = self._engine.store.load(self._id, extent=Extent.ALL)
        task = None if loaded is None else task_of_undo(loaded.snapshot, step)
        definitions: object = self._engine.definitions
        if task is None or not isinstance(definitions, Signatures):
            return "other arguments"
        if definitions.check_call(task, args_text):
            return "other arguments, which fit the task"
        return f"other arguments, unchecked: task {task!r} is not known where they were given"

    def _encode(self, value: object, what: str) -> str:
        return codec.encode(value, limit_bytes=self._engine.limits.max_payload_bytes, what=what)

    def _after(self) -> None:
        self._seen = None
        if self._drive is not None:
            self._drive(self._id)
