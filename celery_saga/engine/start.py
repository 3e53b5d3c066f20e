"""Starting a run: its row is committed with a wake-up, then a message goes out; a key makes it one run for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from celery_saga.core import admission, operator, wakeup
from celery_saga.core.orders import RunSpec
from celery_saga.core.ports import Arrival, StoredDefinition
from celery_saga.core.records import RunRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus
from celery_saga.core.unreadable import opened
from celery_saga.engine.ports import RunMessage
from celery_saga.engine.world import World, refuse_purged
from celery_saga.errors import DefinitionError, IdempotencyConflict, RunExists


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be started: everything validated and encoded by the caller.

    `countdown_s` and `eta` (aware UTC) delay the first decision; `deadline_s` counts from the start.
    `if_exists`: return, raise or restart_failed. `graph_text` and `graph_digest`: of a saga that is data.
    `scheduled_for`: the nominal time of a schedule.
    """

    saga: str
    version: int
    run_id: str
    key: str | None
    input_text: str
    input_digest: str
    spec_text: str = "{}"
    headers_text: str = "{}"
    countdown_s: float | None = None
    eta: datetime | None = None
    deadline_s: float | None = None
    priority: int = 0
    lane: str | None = None
    tags: tuple[str, ...] = ()
    queue: str | None = None
    if_exists: str = "return"
    graph_text: str | None = None
    graph_digest: str = ""
    scheduled_for: datetime | None = None


def start(world: World, new: NewRun, *, publish: Callable[[RunRecord], object] | None = None) -> tuple[RunRecord, bool]:
    """Write the run and send its first wake-up; the run that is there already where its id is taken.

    Args:
        publish: sends the first wake-up, or has it sent after the caller's commit; None: it is sent at once.
    Returns:
        The stored run, and whether this call wrote it.
    Raises:
        IdempotencyConflict: its key is taken by a run with another input; nothing was written.
        PayloadUnreadable: its key is taken by a run whose input cannot be compared now; nothing was written.
        RunExists: it is there and `if_exists` is "raise"; nothing was written.
        ResultPurged: it is to start over, and only its key is left; nothing was written.
        DefinitionError: another graph is stored under the saga's name and version; nothing was written.
        StoreUnavailable: the database is out of reach; nothing was written, unless the connection was lost while
            committing: starting again with the same key tells.
    """
    _keep_definition(world, new)

    def first(arrival: Arrival) -> RunRecord:
        return _first_record(new, arrival, world.resend_s)

    stored, created = world.store.start_run(new.saga, first, eta=new.eta, look_s=world.resend_s)
    if not created:
        return _existing(world, new, stored), False
    if stored.sends and publish is not None:
        publish(stored)
    elif stored.sends:
        world.publisher.publish([RunMessage(stored)])
    return stored, True


def _keep_definition(world: World, new: NewRun) -> None:
    """Before the run: a run whose graph nobody could find would wait for ever, a graph without a run does no harm."""
    if new.graph_text is None:
        return
    stored = world.store.put_definition(new.saga, new.version, digest=new.graph_digest, graph_text=new.graph_text)
    refuse_another(stored, new.graph_digest)


def refuse_another(stored: StoredDefinition, digest: str) -> None:
    """Refuse to start a run with another graph than the one that is stored under its name and version.

    Raises:
        DefinitionError: it is another; nothing was written.
    """
    if stored.digest != digest:
        raise DefinitionError(
            f"saga {stored.name!r} version {stored.version}: another graph is stored under this name and version, "
            f"since {stored.created_at.isoformat()}; nothing was written, and what is stored was left unchanged. Give "
            "the changed graph a higher version: runs go on with the graph that they were started with."
        )


def _first_record(new: NewRun, arrival: Arrival, resend_s: float) -> RunRecord:
    now = arrival.now
    due_at = new.eta if new.countdown_s is None else wakeup.after(now, new.countdown_s)
    run = RunRecord(
        id=new.run_id,
        saga=new.saga,
        version=new.version,
        key=new.key,
        status=RunStatus.QUEUED,
        created_at=now,
        updated_at=now,
        input_text=new.input_text,
        input_digest=new.input_digest,
        spec_text=replace(RunSpec.from_text(new.spec_text), deadline_s=new.deadline_s).to_text(),
        headers_text=new.headers_text,
        not_before_at=due_at if due_at is not None and due_at > now else None,
        deadline_at=None if new.deadline_s is None else wakeup.after(now, new.deadline_s),
        priority=new.priority,
        lane=new.lane,
        tags_text=json.dumps(list(new.tags)),
        queue=new.queue,
        scheduled_for=new.scheduled_for,
    )
    run = wakeup.wake(Snapshot(run), now, resend_s).run
    return admission.first(run, now, resend_s, is_capped=arrival.is_held_back)


def _existing(world: World, new: NewRun, stored: RunRecord) -> RunRecord:
    if stored.saga != new.saga or opened(stored.input_digest) != new.input_digest:
        # Without a key it was a message's id, or a task's, that came again.
        by = "id" if new.key is None else f"key {new.key!r}"
        word = "id" if new.key is None else "key"
        raise IdempotencyConflict(
            f"saga {new.saga!r}, {by}: run {stored.id!r} was started under this {word} with another input; "
            f"nothing was written. Use another {word}, or start with the input it was given.",
            run_id=stored.id,
        )
    if new.if_exists == "raise":
        raise RunExists(
            f"saga {new.saga!r}, key {new.key!r}: run {stored.id!r} is there already ({stored.status.value}); "
            "nothing was written",
            run_id=stored.id,
        )
    if new.if_exists == "restart_failed" and stored.status is not RunStatus.COMPLETED:
        refuse_purged(stored)
        again = world.for_clients()
        transition = again.change(stored.id, lambda s, now: operator.restart_failed(s, now, world.resend_s))
        return stored if transition is None else transition.new.run
    return stored
