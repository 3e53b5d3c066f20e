"""The engine in one place: every verb of clients, workers, sweeper and operators, over the ports."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any

from celery_saga.core import operator, skipping
from celery_saga.core.attempts import Failed, Outcome
from celery_saga.core.focus import Extent
from celery_saga.core.ports import Claimed, Store, Transition
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.core.unreadable import opened
from celery_saga.engine import coordinator, signals, start, worker
from celery_saga.engine.inline import advance
from celery_saga.engine.lanes import SaidLanes
from celery_saga.engine.parts import coordinate_part
from celery_saga.engine.ports import Definitions, Inline, Limits, Publisher, TakesInline, Watch
from celery_saga.engine.schedules import ScheduleBook
from celery_saga.engine.start import NewRun
from celery_saga.engine.sweeper import Sweeper
from celery_saga.engine.world import Event, World, never_inline, refuse_purged, watch_nothing
from celery_saga.errors import PayloadUnreadable, RunNotFound

_NO_LIMITS = Limits()

AroundSignal = Callable[[Callable[[], RunRecord | None], str], AbstractContextManager[object]]


def _nothing_around(_find: Callable[[], RunRecord | None], _name: str) -> AbstractContextManager[object]:
    return nullcontext()


def _without_children(event: Event, s: Snapshot, now: datetime) -> Snapshot:
    """Of a run that cannot be read: its children could not be told."""
    for step in s.where(StepStatus.WAITING):
        if step.kind is StepKind.CHILD:
            opened(step.spec_text)
    return event(s, now)


def _token() -> str:
    return uuid.uuid4().hex


class Engine:
    """Moves runs. Thread-safe except `sweep`, which belongs to one thread.

    Args:
        store: the tables.
        publisher: sends wake-ups after each commit; may fail silently, the sweeper sends again.
        definitions: the sagas that this process knows.
        limits: the numbers.
        draw: random numbers in [0, 1).
        token: fresh claim tokens.
        monotonic_s: measures durations.
        pause: waits between two tries to reach the database.
        takes_inline: which steps are left to the process that coordinates their run.
        lanes: what code and settings say of lanes; None: nothing.
        watch: is shown each transition that this engine has committed.
    """

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        definitions: Definitions,
        limits: Limits = _NO_LIMITS,
        *,
        draw: Callable[[], float] = random.random,
        token: Callable[[], str] = _token,
        monotonic_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        takes_inline: TakesInline = never_inline,
        lanes: SaidLanes | None = None,
        watch: Watch = watch_nothing,
    ) -> None:
        said = SaidLanes() if lanes is None else lanes
        ports = (store, publisher, definitions, limits, draw, token, monotonic_s, pause, takes_inline, said)
        self.world = World(*ports, watch=watch)
        self.around_signal: AroundSignal = _nothing_around
        """Entered around the sending of a signal, with what finds its run, and its name."""
        self.schedules = ScheduleBook(self.world)
        """The schedules."""
        self._sweeper = Sweeper(self.world)

    @property
    def store(self) -> Store:
        """The tables."""
        return self.world.store

    @property
    def definitions(self) -> Definitions:
        """The sagas that this process knows."""
        return self.world.definitions

    @property
    def publisher(self) -> Publisher:
        """What sends wake-ups."""
        return self.world.publisher

    @property
    def limits(self) -> Limits:
        """The numbers."""
        return self.world.limits

    # -- clients -----------------------------------------------------------------------------------------------
    def start(self, new: NewRun) -> tuple[RunRecord, bool]:
        """See `start.start`."""
        self.world.lanes.sync(self.world)
        return start.start(self.world, new)

    def signal(self, run_id: str, name: str, **options: Any) -> str:
        """See `signals.signal`."""
        with self.around_signal(lambda: self._run_at(run_id), name):
            return signals.signal(self.world.for_clients(), run_id, name, **options)

    def _run_at(self, run_id: str) -> RunRecord | None:
        loaded = self.store.load(run_id)
        return None if loaded is None else loaded.snapshot.run

    @property
    def is_inside(self) -> bool:
        """What is done becomes part of a caller's transaction, which is open."""
        return False

    def check_may_wait(self, what: str) -> None:
        """Refuse to wait for a run that cannot go on before the caller does.

        Args:
            what: the call that would wait.
        Raises:
            DefinitionError: the caller's transaction is open.
        """

    def is_undone(self) -> bool:
        """What was done through this engine was rolled back by the caller."""
        return False

    def cancel(
        self, run_id: str, *, compensate: bool = True, reason: str = "", by: str | None = None
    ) -> dict[str, Any]:
        """End the forward part of a run; its undos follow unless `compensate` is False. No worker is needed.

        Returns:
            `cancelled`: the run is cancelled, or will be; False after its pivot, and where it has ended otherwise;
            `status`: its status now. The same answer when asked again.
        Raises:
            RunNotFound: there is no such run; nothing was written.
            PayloadUnreadable: something of it cannot be read here, so that it cannot be undone; nothing was written.
                Without undos it can be cancelled all the same, unless children of it live.
        """
        new = self.cancelling(run_id, compensate=compensate, reason=reason, by=by).new
        return {"cancelled": operator.was_cancelled(new), "status": new.run.status.value}

    def cancelling(self, run_id: str, *, compensate: bool, reason: str, by: str | None) -> Transition:
        """`cancel`, answering what it changed; nothing where `new` is `old`."""

        def event(s: Snapshot, now: datetime) -> Snapshot:
            return operator.cancel(s, now, compensate=compensate, reason=reason, by=by)

        world = self.world.for_clients()
        try:
            return world.change_existing(run_id, event)
        except PayloadUnreadable:
            if compensate:
                raise
        return world.change_existing(run_id, partial(_without_children, event), as_stored=True)

    # -- operators: each raises RunNotFound, IllegalTransition or PayloadUnreadable, having written nothing ---------
    def suspend(self, run_id: str, *, reason: str = "", by: str | None = None) -> RunRecord:
        """See `operator.suspend`."""
        return self._operate(run_id, lambda s, now: operator.suspend(s, now, reason=reason, by=by))

    def resume(self, run_id: str, *, reason: str = "", by: str | None = None) -> RunRecord:
        """See `operator.resume`."""
        return self._operate(run_id, lambda s, now: operator.resume(s, now, self.world.resend_s, reason=reason, by=by))

    def compensate(self, run_id: str, *, reason: str = "", by: str | None = None) -> RunRecord:
        """See `operator.compensate`."""
        return self._operate(run_id, lambda s, now: operator.compensate(s, now, reason=reason, by=by))

    def retry(self, run_id: str, *, from_step: str | None = None, reason: str = "", by: str | None = None) -> RunRecord:
        """See `operator.retry`."""

        def event(s: Snapshot, now: datetime) -> Snapshot:
            return operator.retry(s, now, self.world.resend_s, from_step=from_step, reason=reason, by=by)

        return self._operate(run_id, event)

    def skip(
        self, run_id: str, step: str, *, result_text: str = "null", reason: str = "", by: str | None = None
    ) -> RunRecord:
        """See `skipping.skip`."""

        def event(s: Snapshot, now: datetime) -> Snapshot:
            return skipping.skip(s, step, now, self.world.resend_s, result_text=result_text, reason=reason, by=by)

        return self._operate(run_id, event)

    def retry_undo(
        self,
        run_id: str,
        step: str,
        *,
        args_text: str | None = None,
        detail: str | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> RunRecord:
        """See `operator.retry_undo`; `step` is the key of the step, `args_text` codec text of [args, kwargs]."""

        def event(s: Snapshot, now: datetime) -> Snapshot:
            return operator.retry_undo(
                s, step, now, self.world.resend_s, args_text=args_text, detail=detail, reason=reason, by=by
            )

        return self._operate(run_id, event)

    def resolve_undo(
        self, run_id: str, step: str, *, outcome: str = "done", reason: str = "", by: str | None = None
    ) -> RunRecord:
        """See `operator.resolve_undo`."""
        return self._operate(
            run_id,
            lambda s, now: operator.resolve_undo(
                s, step, now, self.world.resend_s, outcome=outcome, reason=reason, by=by
            ),
        )

    def _operate(self, run_id: str, event: Event) -> RunRecord:
        def on_all(s: Snapshot, now: datetime) -> Snapshot:
            s.need(Extent.ALL)
            return event(s, now)

        return self.world.for_clients().change_existing(run_id, on_all).new.run

    # -- workers -----------------------------------------------------------------------------------------------
    def coordinate(
        self, run_id: str, inline: Inline | None = None, *, part: tuple[int, str] | None = None, owner: str = ""
    ) -> None:
        """See `coordinator.coordinate`; with `inline`, steps that may be are executed in it.

        Args:
            part: generation and key of the one part to decide, see `parts.coordinate_part`; None: the run itself.
            owner: `host:pid` of this process.
        """
        self.world.lanes.sync(self.world)
        if part is not None:
            coordinate_part(self.world, run_id, *part, owner=owner)
            return
        live = None if inline is None else partial(advance, self.world, inline)
        coordinator.coordinate(self.world, run_id, live)

    def claim(
        self, run_id: str, generation: int, key: str, *, owner: str, timeout_s: float | None = None
    ) -> Claimed | None:
        """See `worker.claim`."""
        return worker.claim(self.world, run_id, generation, key, owner=owner, timeout_s=timeout_s)

    def renew(self, claimed: Claimed, *, left_s: float | None = None) -> RunRecord | None:
        """See `worker.renew`."""
        return worker.renew(self.world, claimed, left_s=left_s)

    def is_abandoned(self, claimed: Claimed) -> bool:
        """See `worker.is_abandoned`."""
        return worker.is_abandoned(self.world, claimed)

    def failed(
        self, claimed: Claimed, exc: BaseException, *, own_delay_s: float | None = None, maybe: bool = False
    ) -> Failed:
        """See `worker.failed`."""
        return worker.failed(self.world, claimed, exc, own_delay_s=own_delay_s, maybe=maybe)

    def check_in(self, claimed: Claimed, outcome: Outcome, *, elapsed_s: float = 0.0) -> bool:
        """See `worker.check_in`."""
        return worker.check_in(self.world, claimed, outcome, elapsed_s=elapsed_s)

    def end_attempt(self, run_id: str, key: str, token: str | None, *, limit_s: float | None = None) -> bool:
        """See `worker.end_attempt`."""
        return worker.end_attempt(self.world, run_id, key, token, limit_s=limit_s)

    # -- sweeper -----------------------------------------------------------------------------------------------
    def sweep(self, interval_s: float | None = None) -> int:
        """See `Sweeper.tick`."""
        return self._sweeper.tick(interval_s)

    def coming_s(self, within_s: float, *, since_s: float = 0.0) -> float | None:
        """In how many seconds there will be something to sweep that has a time of its own; None: not within so many."""
        return self.world.store.coming_s(within_s, since_s=since_s)

    def run_of(self, run_id: str, *, purged: bool = False) -> RunRecord:
        """The stored run, with input and result.

        Args:
            purged: also one of which only its key is left.
        Raises:
            RunNotFound: there is no such run.
            ResultPurged: only its key is left.
        """
        loaded = self.store.load(run_id)
        if loaded is None:
            raise RunNotFound(f"run {run_id!r}: there is no such run", run_id=run_id)
        if not purged:
            refuse_purged(loaded.snapshot.run)
        return loaded.snapshot.run
