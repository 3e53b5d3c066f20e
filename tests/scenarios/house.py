"""Everything of celery_saga but Celery's transport, in this process: real store, engine, definitions; a virtual clock.

Messages wait in a list until `drain()`; with `duplicate=True` each of them is delivered twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from celery import Celery

from celery_saga.client import binding
from celery_saga.client.current import StepContext, enter
from celery_saga.core import codec
from celery_saga.core.attempts import Failed, Succeeded
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Claimed
from celery_saga.core.records import Action, StepRecord
from celery_saga.definition.registry import Registry
from celery_saga.definition.saga import Saga
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Limits, Message, RunMessage
from celery_saga.store import open_store
from celery_saga.store.migrations import migrate
from tests.servers.emptying import empty


class Place:
    """A database with our tables, and the virtual time that is told there."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.store = open_store(url, clock=lambda: self.now)
        if create:
            migrate(self.store)

    def empty(self) -> None:
        """Take everything out; the statements that the store has compiled stay."""
        empty(self.store)


class House:
    """One app with its store and engine; also the binding that sagas started inside it use."""

    eager = False

    def __init__(
        self,
        place: str | Place,
        *,
        duplicate: bool = False,
        limits: Limits | None = None,
        create: bool = True,
    ) -> None:
        self.mine = isinstance(place, str)
        self.place = Place(place, create=create) if isinstance(place, str) else place
        self.store = self.place.store
        self.app = Celery("house", set_as_current=False)
        self.app.close()  # out of the list of apps that get every shared task of the process
        self.registry = Registry(())
        self.registry.stored, self.registry.keep = self.store.definition, self.store.put_definition
        self.messages: list[Message] = []
        self.landed: list[tuple[str, int, bool]] = []  # key, attempt, success was checked in
        self.duplicate = duplicate
        self.engine = Engine(self.store, self, self.registry, limits or Limits())

    def task(self, name: str) -> Callable[[Callable[..., Any]], Any]:
        """Register a task in this house alone: Celery shares tasks among all apps of a process by default."""
        return self.app.task(name=name, shared=False)

    @property
    def now(self) -> datetime:
        """The time, aware UTC; set it to move the clock."""
        return self.place.now

    @now.setter
    def now(self, at: datetime) -> None:
        self.place.now = at

    # -- binding ------------------------------------------------------------------------------------------------
    def headers(self) -> Mapping[str, str]:
        return {}

    def after_start(self, run_id: str) -> None:
        pass

    def __enter__(self) -> House:
        self._resolver_before = binding.set_resolver(lambda _saga: self)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        binding.set_resolver(self._resolver_before)
        assert self.store.without_wake_up() == []
        if self.mine:
            self.store.close()

    def add(self, *sagas: Saga[Any, Any]) -> None:
        for each in sagas:
            self.registry.add(each)

    # -- publisher ----------------------------------------------------------------------------------------------
    def publish(self, messages: Sequence[Message]) -> int:
        self.messages.extend(messages)
        if self.duplicate:
            self.messages.extend(messages)
        return len(messages)

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return 0

    # -- world --------------------------------------------------------------------------------------------------
    def drain(self, *, limit: int = 1000) -> None:
        """Deliver until no message is left."""
        while self.messages:
            limit -= 1
            assert limit > 0, "the run never comes to rest"
            self.deliver(self.messages.pop(0))

    def deliver(self, message: Message) -> None:
        if isinstance(message, RunMessage):
            self.engine.coordinate(message.run.id, part=message.part_ref)
            return
        claimed = self.claim(message.step, "house:1")
        if claimed is not None:
            self.finish(claimed)

    def claim(self, step: StepRecord, owner: str) -> Claimed | None:
        timeout_s = StepSpec.from_text(step.spec_text).timeout_s or self.engine.limits.step_timeout_s
        return self.engine.claim(step.run_id, step.generation, step.key, owner=owner, timeout_s=timeout_s)

    def finish(self, claimed: Claimed) -> bool:
        """Execute a claimed attempt and check it in; False: it was refused."""
        outcome = self.execute(claimed)
        landed = self.engine.check_in(claimed, outcome)
        self.landed.append((claimed.step.key, claimed.step.attempt, landed and isinstance(outcome, Succeeded)))
        return landed

    def execute(self, claimed: Claimed) -> Succeeded | Failed:
        step, run = claimed.step, claimed.snapshot.run
        context = StepContext(run.id, run.key, step.key, step.attempt, step.idempotency_key)
        try:
            with enter(context):
                value = self.app.tasks[step.task].run(*step.args, **step.kwargs)
        except Exception as exc:  # noqa: BLE001 - what a worker does with it
            return self.engine.failed(claimed, exc)
        try:
            return Succeeded(codec.encode(value))
        except ValueError as exc:
            return self.engine.failed(claimed, exc, maybe=True)

    def claim_next(self) -> Claimed:
        """Take the next step message and claim it, without executing it."""
        while isinstance(self.messages[0], RunMessage):
            self.deliver(self.messages.pop(0))
        message = self.messages.pop(0)
        assert not isinstance(message, RunMessage)
        claimed = self.claim(message.step, "house:2")
        assert claimed is not None
        return claimed

    def advance(self, seconds: float) -> None:
        """Move the clock, let the sweeper look, deliver what it sends."""
        self.now += timedelta(seconds=seconds)
        self.sweep()

    def sweep(self) -> None:
        while self.engine.sweep():
            self.drain()
        self.drain()

    # -- looking ------------------------------------------------------------------------------------------------
    def actions(self, run_id: str) -> list[str]:
        return [row.action.value for row in self.store.history(run_id)]

    def rows(self, run_id: str, action: Action) -> int:
        return sum(row.action is action for row in self.store.history(run_id))


Factory = Callable[..., House]
