"""`task_always_eager`: runs go on in the caller's process, without a broker, up to their end or next wait."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from celery_saga.client.waiting import children_of, due_steps
from celery_saga.core import failure
from celery_saga.core.attempts import Failed
from celery_saga.core.records import StepRecord
from celery_saga.core.status import StepStatus
from celery_saga.engine.dispatch import wake_up
from celery_saga.engine.ports import Message, RunMessage, StepMessage
from celery_saga.engine.worker import end_attempt
from celery_saga.errors import DefinitionError
from celery_saga.runtime.attempt import Attempt, current
from celery_saga.runtime.envelope import begin
from celery_saga.runtime.messages import task_id_of
from celery_saga.runtime.names import HEADER
from celery_saga.runtime.services import owner
from celery_saga.runtime.step_task import install
from celery_saga.runtime.transactional import ambient_of

if TYPE_CHECKING:
    from celery_saga.runtime.services import Services

__all__ = ["EagerPublisher"]

logger = logging.getLogger("celery_saga.step")


class EagerPublisher:
    """The engine's `Publisher` that executes what it is given.

    A queue for each thread rather than recursion: a run of any length needs no deeper stack than one step.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._local = threading.local()
        # Nothing is sent that could be refused on its way: the tasks themselves refuse to be called in a body.
        services.registry.before_pass = lambda: install(services.app)

    def publish(self, messages: Sequence[Message]) -> int:
        """Take them all; the outermost call executes them, and what follows from them, before it returns."""
        if messages and self._is_hidden(messages[0]):
            return 0
        pending: deque[Message] | None = getattr(self._local, "pending", None)
        if pending is not None:
            pending.extend(messages)
            return len(messages)
        self._local.pending = pending = deque(messages)
        try:
            while pending:
                self._execute(pending.popleft())
        finally:
            self._local.pending = None
        return len(messages)

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        """Nothing ever waits."""
        return 0

    def _is_hidden(self, message: Message) -> bool:
        """In a test's transaction, which never commits: no other connection would find the run."""
        ambient = ambient_of(self._services.app)
        if ambient is None or ambient.connection() is None:
            return False
        logger.info(
            "run %s stays as it is: the transaction it was started in has not committed. %s",
            message.run.id,
            ambient.advice,
        )
        return True

    def _execute(self, message: Message) -> None:
        if isinstance(message, RunMessage):
            self._services.engine.coordinate(message.run.id, part=message.part_ref, owner=owner())
        else:
            self._step(message)

    def _step(self, message: StepMessage) -> None:
        app, step = self._services.app, message.step
        task: Any = app.tasks.get(step.task)
        if task is None:
            self._refuse(step)
            return
        install(app)
        ref = {"run": step.run_id, "generation": step.generation, "step": step.key, "task": step.task}
        attempt = begin(task, ref)
        if attempt is None:
            return
        token = current.set(attempt)
        try:
            with self._services.telemetry.within(attempt.claimed.snapshot.run):
                done = task.apply(
                    attempt.args,
                    attempt.kwargs,
                    task_id=task_id_of(step),
                    retries=attempt.claimed.step.failures,
                    throw=False,
                    ignore_result=True,
                    headers={HEADER: ref},
                ).result
        except Exception as error:  # noqa: BLE001  # recorded or logged, as by a worker
            done = error
            if attempt.entered:  # a hook raised, or Celery could not print what the task returned
                logger.error("step %r of run %s has ended, but then: %r", step.key, step.run_id, error, exc_info=error)
        finally:
            current.reset(token)
        if isinstance(done, Exception) and not attempt.entered:
            self._fail(attempt, done)

    def _fail(self, attempt: Attempt, error: Exception) -> None:
        """Check in what kept the task from being called, like an error of its `before_start`."""
        engine = self._services.engine
        outcome = engine.failed(attempt.claimed, error)
        engine.check_in(attempt.claimed, outcome if outcome.delay_s is None else replace(outcome, delay_s=0.0))

    def _refuse(self, step: StepRecord) -> None:
        """End a step that nobody could ever execute, without another attempt."""
        engine = self._services.engine
        claimed = engine.claim(step.run_id, step.generation, step.key, owner=owner())
        if claimed is not None:
            missing = DefinitionError(
                f"step {step.key!r} needs the task {step.task!r}, which is not registered in this process, and with "
                "task_always_eager no other executes it. Import the module that defines it."
            )
            engine.check_in(claimed, Failed(failure.capture(missing), None))

    def drive(self, run_id: str) -> None:
        """What a sweeper and workers would do now for this run and its children, and for no other."""
        engine = self._services.engine
        loaded = engine.store.load(run_id)
        if loaded is None:
            return
        for step in due_steps(loaded):
            if step.status is StepStatus.SCHEDULED:
                self.publish([wake_up(loaded.snapshot.run, step)])
            elif step.status is StepStatus.RUNNING:
                end_attempt(engine.world, run_id, step.key, step.claim_token, ended=False)
        for child_id in children_of(loaded):
            self.drive(child_id)
        engine.coordinate(run_id)
