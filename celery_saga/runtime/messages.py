"""What a wake-up looks like on the wire: ids only, under the name that our workers turn back into the user's task."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from celery_saga.core import codec
from celery_saga.core.orders import StepSpec
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.trace_context import sent_headers
from celery_saga.engine.ports import Message, RunMessage, StepMessage
from celery_saga.runtime.literals import literal
from celery_saga.runtime.names import COORDINATE, HEADER, STEP
from celery_saga.runtime.priority import Turned, hint_of, is_turned
from celery_saga.runtime.received import sent_to

__all__ = [
    "Envelope",
    "coordinate_envelope",
    "envelope_of",
    "exec_options",
    "prepared",
    "publish",
    "route_of",
    "step_envelope",
    "task_id_of",
]

_RETRY_ONCE = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


@dataclass(frozen=True, slots=True)
class Envelope:
    """All that `publish` hands to Celery. `args` and `kwargs` are for routers only: they are not sent."""

    name: str
    task_id: str
    run_id: str
    headers: dict[str, Any]
    kwargsrepr: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    retries: int = 0
    is_hinted: bool = False  # its priority is that of the run


def task_id_of(step: StepRecord) -> str:
    """The Celery id of a step: one for all its attempts, so that users can take `request.id` for a token."""
    return step.task_id or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{step.run_id}:{step.generation}:{step.key}"))


def exec_options(app: Celery, name: str) -> dict[str, Any]:
    """What the task itself says about its messages; nothing where this process does not know it."""
    task: Any = app.tasks.get(name)
    if task is None:
        return {}
    return {key: value for key, value in task._get_exec_options().items() if value is not None and key != "expires"}


def step_options(app: Celery, run: RunRecord, step: StepRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a step's message, the run's and those of its task below its own; and its own headers."""
    options = {**exec_options(app, step.task), **hint_of(run), **StepSpec.from_text(step.spec_text).options}
    return options, dict(options.pop("headers", None) or {})


def step_envelope(app: Celery, message: StepMessage) -> Envelope:
    """The message of a step."""
    run, step = message.run, message.step
    args, kwargs = codec.decode(step.args_text)
    ref: dict[str, Any] = {"run": step.run_id, "generation": step.generation, "step": step.key, "task": step.task}
    options, headers = step_options(app, run, step)
    return Envelope(
        name=step.task,
        task_id=task_id_of(step),
        run_id=step.run_id,
        headers={**sent_headers(run), **headers, "task": STEP, HEADER: ref},
        kwargsrepr=literal({"step": step.key, "saga_run": step.run_id}),
        args=tuple(args),
        kwargs=dict(kwargs),
        options=options,
        retries=step.failures,
        is_hinted=_is_hinted(run, options),
    )


def _is_hinted(run: RunRecord, options: Mapping[str, Any]) -> bool:
    return bool(run.priority) and options.get("priority") == hint_of(run)["priority"]


def coordinate_envelope(message: RunMessage, queue: str | None) -> Envelope:
    """What wakes a run, or a part of it. `queue`: the run's own, else `saga_queue`, else as the app routes it."""
    run = message.run
    name = run.queue or queue
    ref: dict[str, Any] = {"run": run.id}
    if message.part is not None:
        ref |= {"generation": message.part.generation, "part": message.part.key}
    return Envelope(
        name=COORDINATE,
        task_id=str(uuid.uuid4()),
        run_id=run.id,
        headers={**sent_headers(run), HEADER: ref},
        kwargsrepr=literal(({"part": message.part.key} if message.part else {}) | {"saga_run": run.id}),
        options=hint_of(run) | ({"queue": name} if name else {}),
        is_hinted=bool(run.priority),
    )


def envelope_of(app: Celery, message: Message, queue: str | None) -> Envelope:
    """Either of the two."""
    return step_envelope(app, message) if isinstance(message, StepMessage) else coordinate_envelope(message, queue)


def route_of(app: Celery, amqp: Any, envelope: Envelope) -> dict[str, Any]:
    """Where the app's router sends it, by its real name and arguments."""
    options = {key: value for key, value in envelope.options.items() if key not in {"time_limit", "soft_time_limit"}}
    route: dict[str, Any] = amqp.router.route(
        options, envelope.name, envelope.args, envelope.kwargs, app.tasks.get(envelope.name)
    )
    return route


def prepared(app: Celery, amqp: Any, envelope: Envelope) -> tuple[Any, dict[str, Any]]:
    """The message and its route. Raises what the router raises; the broker is not asked."""
    route = route_of(app, amqp, envelope)
    message = amqp.create_task_message(
        envelope.task_id,
        envelope.name,
        (),
        {},
        retries=envelope.retries,
        time_limit=envelope.options.get("time_limit"),
        soft_time_limit=envelope.options.get("soft_time_limit"),
        root_id=envelope.run_id,
        parent_id=envelope.run_id,
        create_sent_event=app.conf.task_send_sent_event and envelope.name != COORDINATE,
        ignore_result=True,
        argsrepr="()",
        kwargsrepr=envelope.kwargsrepr,
    )
    return message, route


def publish(amqp: Any, producer: Any, envelope: Envelope, message: Any, route: dict[str, Any]) -> None:
    """Send what was prepared. Raises what the broker raises."""
    if envelope.is_hinted and is_turned(producer.connection):
        producer = Turned(producer, amqp.app.conf.task_default_priority)
    headers = {**envelope.headers, HEADER: {**envelope.headers[HEADER], "sent": sent_to(route)}}
    # One silent reconnect: a pooled connection may have died since it was last used.
    amqp.send_task_message(
        producer, envelope.name, message, headers=headers, retry=True, retry_policy=_RETRY_ONCE, **route
    )
