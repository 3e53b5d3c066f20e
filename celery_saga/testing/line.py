"""The messages of a laboratory: they wait in a queue until they are delivered, one after the other, in this thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from celery_saga.core import failure
from celery_saga.core.attempts import Failed
from celery_saga.core.records import StepRecord
from celery_saga.engine.ports import Message, StepMessage
from celery_saga.errors import DefinitionError
from celery_saga.runtime.attempt import current
from celery_saga.runtime.envelope import begin
from celery_saga.runtime.messages import task_id_of
from celery_saga.runtime.names import HEADER
from celery_saga.runtime.services import owner
from celery_saga.runtime.step_task import install

if TYPE_CHECKING:
    from celery_saga.testing.place import LabServices
    from celery_saga.testing.trouble import Troubles

__all__ = ["Line"]


class Line:
    """The engine's `Publisher`, and the worker behind it.

    Args:
        troubles: what happens to the tasks.
    """

    def __init__(self, troubles: Troubles) -> None:
        self._troubles = troubles
        self._queue: deque[Message] = deque()
        self.services: LabServices

    def __len__(self) -> int:
        return len(self._queue)

    def publish(self, messages: Sequence[Message]) -> int:
        """Take them all."""
        self._queue.extend(messages)
        return len(messages)

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        """Nothing waits for long."""
        return 0

    def clear(self) -> None:
        """Lose what waits."""
        self._queue.clear()

    def deliver(self) -> None:
        """Do what the next message says. What raises `Died` has lost its message."""
        message = self._queue.popleft()
        if isinstance(message, StepMessage):
            self._execute(message.step)
        else:
            self.services.engine.coordinate(message.run.id, part=message.part_ref, owner=owner())

    def _execute(self, step: StepRecord) -> None:
        app = self.services.app
        install(app)
        task: Any = app.tasks.get(step.task)
        if task is None:
            self._refuse(step)
            return
        ref = {"run": step.run_id, "generation": step.generation, "step": step.key, "task": step.task}
        attempt = begin(task, ref)
        if attempt is None:
            return
        token = current.set(attempt)
        try:
            with self._troubles.around(task):
                done = task.apply(
                    attempt.args,
                    attempt.kwargs,
                    task_id=task_id_of(step),
                    retries=attempt.claimed.step.failures,
                    throw=False,
                    ignore_result=True,
                    headers={HEADER: ref},
                ).result
        except Exception as error:  # noqa: BLE001 - recorded, or of a hook after the checkpoint
            done = error
        finally:
            current.reset(token)
        if isinstance(done, Exception) and not attempt.entered:
            # What kept the task from being called, like an error of its `before_start`.
            engine = self.services.engine
            engine.check_in(attempt.claimed, engine.failed(attempt.claimed, done))

    def _refuse(self, step: StepRecord) -> None:
        """End a step that nobody here could execute."""
        engine = self.services.engine
        claimed = engine.claim(step.run_id, step.generation, step.key, owner=owner())
        if claimed is not None:
            missing = DefinitionError(
                f"step {step.key!r} needs the task {step.task!r}, which is not registered in this process. Import the "
                f"module that defines it, or write lab.stub({step.task!r}, returns=...)."
            )
            engine.check_in(claimed, Failed(failure.capture(missing), None))
