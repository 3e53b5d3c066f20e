"""Steps on workers without celery_saga: sent as ordinary tasks with real arguments, whose callbacks report back.

The only exception to "messages carry ids only". The sender claims the step, with a lease as long as its time-out; the
report checks it in. Where there is no report, the lease ends and the step counts as timed out.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from kombu import Exchange, Queue
from kombu.exceptions import EncodeError

from celery_saga.core import codec, failure, wakeup
from celery_saga.core.attempts import Failed
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Claimed
from celery_saga.core.records import StepRecord
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.core.trace_context import sent_headers
from celery_saga.engine.ports import StepMessage
from celery_saga.engine.seldom import Seldom
from celery_saga.errors import PayloadUnreadable, SagaError
from celery_saga.runtime.daemon import start_daemon
from celery_saga.runtime.messages import step_options, task_id_of
from celery_saga.runtime.names import COORDINATE, REPORT
from celery_saga.runtime.priority import Turned, hint_of, is_turned

if TYPE_CHECKING:
    from datetime import datetime

    from celery_saga.core.snapshot import Snapshot
    from celery_saga.runtime.services import Services

__all__ = ["RemoteSender"]

logger = logging.getLogger("celery_saga.remote")
seldom = Seldom(logger)

_EXCHANGE = Exchange("celery_saga", type="direct", durable=True)
_ROUTING_KEY = "report"


class RemoteSender:
    """Claims a step and sends it as the task that it is.

    Args:
        services: whose store, engine and app are used.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._bound: set[int] = set()

    def __call__(self, amqp: Any, producer: Any, message: StepMessage) -> bool:
        """Whether the step was sent, or needs no sending. Raises what the broker raises, the claim then taken back."""
        step = message.step
        timeout_s = StepSpec.from_text(step.spec_text).timeout_s or self._services.settings.lease
        try:
            claimed = self._services.store.claim(
                step.run_id,
                step.generation,
                step.key,
                token=uuid.uuid4().hex,
                owner=f"remote:{step.task}"[:200],
                lease_s=timeout_s,
            )
        except PayloadUnreadable as error:
            self._park(step.run_id, error)
            return True
        if claimed is None:
            return True
        try:
            self._bind(amqp, producer)
            self._send(amqp, producer, message, claimed)
        except (EncodeError, TypeError, ValueError) as error:
            self._refuse(claimed, error)
        except Exception:
            self._give_back(claimed.step)
            raise
        return True

    def _bind(self, amqp: Any, producer: Any) -> None:
        """Let reports arrive where this app's own coordinator listens; once for each connection."""
        connection = producer.connection
        if id(connection) in self._bound:
            return
        queue = self._services.settings.queue
        route = amqp.router.route({"queue": queue} if queue else {}, COORDINATE, (), {}, None)
        target = route.get("queue") or amqp.default_queue
        name = str(getattr(target, "name", target))
        channel = connection.channel()
        try:
            if isinstance(target, Queue):
                target(channel).declare()
            _EXCHANGE(channel).declare()
            Queue(name, _EXCHANGE, routing_key=_ROUTING_KEY)(channel).queue_bind()
        finally:
            channel.close()
        self._bound.add(id(connection))

    def _send(self, amqp: Any, producer: Any, message: StepMessage, claimed: Claimed) -> None:
        app, step = self._services.app, claimed.step
        args, kwargs = codec.decode(step.args_text)
        options, headers = step_options(app, message.run, step)
        limits = {name: options.pop(name, None) for name in ("time_limit", "soft_time_limit")}
        route = amqp.router.route(options, step.task, tuple(args), kwargs, app.tasks.get(step.task))
        if isinstance(route.get("queue"), Queue):
            # As it stands there: declaring it with our idea of its arguments would be refused.
            name = route["queue"].name
            route["queue"] = Queue(name, Exchange("", type="direct"), routing_key=name, no_declare=True)
        task_id = task_id_of(step)
        body = amqp.create_task_message(
            task_id,
            step.task,
            tuple(args),
            dict(kwargs),
            retries=step.failures,
            callbacks=[self._report(claimed, failed=False)],
            errbacks=[self._report(claimed, failed=True)],
            root_id=step.run_id,
            parent_id=step.run_id,
            create_sent_event=app.conf.task_send_sent_event,
            ignore_result=False,
            **limits,
        )
        if options.get("priority") == hint_of(message.run).get("priority") and is_turned(producer.connection):
            producer = Turned(producer, app.conf.task_default_priority)
        amqp.send_task_message(
            producer, step.task, body, headers={**sent_headers(message.run), **headers}, retry=False, **route
        )

    def _report(self, claimed: Claimed, *, failed: bool) -> dict[str, Any]:
        step = claimed.step
        ids = {
            "run": step.run_id,
            "generation": step.generation,
            "step": step.key,
            "token": step.claim_token,
            "failed": failed,
        }
        options = {"exchange": _EXCHANGE.name, "routing_key": _ROUTING_KEY}
        return dict(self._services.app.signature(REPORT, kwargs=ids, options=options))

    def _park(self, run_id: str, error: PayloadUnreadable) -> None:
        """Not in this thread, as below."""
        start_daemon(lambda: _park(self._services, run_id, error), "saga-refusal")

    def _refuse(self, claimed: Claimed, error: Exception) -> None:
        """Arguments that Celery's serializer cannot write: the step has failed."""
        told = SagaError(
            f"step {claimed.step.key!r}: its arguments cannot be sent to a worker without celery_saga: {error}"
        )
        outcome = Failed(failure.capture(told))
        # Not in this thread: checking in publishes, which is this thread's work.
        start_daemon(lambda: _check_in(self._services, claimed, outcome), "saga-refusal")

    def _give_back(self, mine: StepRecord) -> None:
        """The broker refused: the attempt has not begun, and is not counted; also where the run cannot be read now."""
        resend_s = self._services.settings.lease

        def change(s: Snapshot, now: datetime) -> Snapshot:
            step = s.steps.get(mine.key)
            if step is None or step.claim_token != mine.claim_token or step.status is not StepStatus.RUNNING:
                return s
            s = s.move_step(mine.key, StepEvent.STALLED, claim_token=None, owner=None, attempt=step.attempt - 1)
            return s.with_step(wakeup.scheduled(s.steps[mine.key], now, resend_s))

        try:
            self._services.store.transact(mine.run_id, change, as_stored=True)
        except SagaError as error:
            seldom.warning("step %r of run %s stays claimed until its time-out: %s", mine.key, mine.run_id, error)


def _park(services: Services, run_id: str, error: PayloadUnreadable) -> None:
    try:
        services.engine.world.park_unreadable(run_id, error)
    except SagaError as trouble:
        seldom.warning("run %s cannot be read, and was not parked: %s", run_id, trouble)


def _check_in(services: Services, claimed: Claimed, outcome: Failed) -> None:
    try:
        services.engine.check_in(claimed, outcome)
    except SagaError as error:
        seldom.warning("step %r of run %s was not checked in: %s", claimed.step.key, claimed.step.run_id, error)
