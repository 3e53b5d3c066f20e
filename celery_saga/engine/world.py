"""What every part of the engine works with: the ports, the numbers, and the one way in which a run is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from celery_saga.core.advance import settle
from celery_saga.core.focus import Focus, region_of
from celery_saga.core.parking import unreadable
from celery_saga.core.placing import Order
from celery_saga.core.records import RunRecord
from celery_saga.core.requests import carry_out
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.waits import deliver, tick
from celery_saga.engine import admission, journal
from celery_saga.engine.dispatch import is_for, messages_of
from celery_saga.engine.lanes import SaidLanes
from celery_saga.engine.ports import (
    Definitions,
    Limits,
    Message,
    Publisher,
    StepMessage,
    Store,
    TakesInline,
    Transition,
    Watch,
)
from celery_saga.errors import PayloadUnreadable, ResultPurged, RunNotFound, StoreUnavailable

Event = Callable[[Snapshot, datetime], Snapshot]


def refuse_purged(run: RunRecord) -> None:
    """Refuse what needs more of a run than its key and its status.

    Raises:
        ResultPurged: no more of it is left; nothing was written.
    """
    if run.purged_at is not None:
        raise ResultPurged(
            f"run {run.id!r} ({run.saga}, {run.status.value}) was purged at {run.purged_at.isoformat()}: only its key "
            "is left, so that it is not started again. Nothing was changed."
        )


def never_inline(run: RunRecord, order: Order) -> bool:
    """Every step is executed by a message of its own."""
    return False


def watch_nothing(transition: Transition) -> None:
    """Nobody counts and traces."""


def cannot_be_read(run_id: str, why: str) -> PayloadUnreadable:
    """What to tell of a run of which something was read that cannot be; `why` as of `Loaded.unreadable`."""
    return PayloadUnreadable(
        f"run {run_id!r}: something stored of it cannot be read ({why}); it was left as it is. Let saga_codec know its "
        "key, or put back what is missing; then do it again, and resume the run where it is parked."
    )


@dataclass(frozen=True)
class World:
    """Ports and numbers.

    Args:
        store: the tables.
        publisher: sends wake-ups after the commit.
        definitions: the sagas that this process knows.
        limits: seconds, bytes and counts.
        draw: a random number in [0, 1), for jitter.
        token: a fresh random claim token.
        monotonic_s: a clock that only measures durations, in seconds.
        pause: waits so many seconds between two tries to reach the database.
        takes_inline: which steps are left to the process that coordinates their run.
        lanes: what code and settings say of lanes.
        parks: a run of which something cannot be read is parked. False: it is left as it is, see `for_clients`.
        watch: is shown each transition that this process has committed.
    """

    store: Store
    publisher: Publisher
    definitions: Definitions
    limits: Limits
    draw: Callable[[], float]
    token: Callable[[], str]
    monotonic_s: Callable[[], float]
    pause: Callable[[float], None]
    takes_inline: TakesInline = never_inline
    lanes: SaidLanes = field(default_factory=SaidLanes)
    parks: bool = True
    watch: Watch = watch_nothing

    def for_clients(self) -> World:
        """The same for verbs of clients and operators: what they cannot read they refuse, and do not park.

        Their process need not have the keys of the workers', who may be able to read it.
        """
        return replace(self, parks=False)

    def is_inline(self, run: RunRecord, order: Order) -> bool:
        """Whether the process that coordinates the run may execute this step: one of the body itself, not of a join."""
        return order.join_key is None and not region_of(order.key) and self.takes_inline(run, order)

    @property
    def resend_s(self) -> float:
        """How long a wake-up is given before it is sent again for the first time."""
        return self.limits.lease_s

    def change(
        self,
        run_id: str,
        event: Event,
        *,
        settled: bool = False,
        focus: Focus | None = None,
        as_stored: bool = False,
    ) -> Transition | None:
        """Apply what the clock brings, then `event`, then what follows; commit; publish.

        Args:
            event: pure; the same snapshot back means that nothing is to be written.
            focus: which of the run's steps to load at first; None: all that are not folded.
            as_stored: it is changed although something of it cannot be read.
            settled: what follows is worked out even where neither clock nor event changed anything.
        Raises:
            PayloadUnreadable: something of it cannot be read; where this world parks, it was parked for that. Nothing
                else was written.
        Returns:
            None: there is no such run. A transition whose `old` is its `new` wrote nothing.
        """
        transition = self.transact(run_id, self.whole(event, settled=settled), focus=focus, as_stored=as_stored)
        self.follow(transition)
        return transition

    def whole(self, event: Event, *, settled: bool = False) -> Event:
        """What `change` commits: what the clock brings, the event, and what follows; pure."""

        def whole(s: Snapshot, now: datetime) -> Snapshot:
            if s.run.purged_at is not None:
                return s  # nothing but its key is left
            new = event(tick(s, now, self.resend_s), now)
            if new is s and not settled:
                return s
            new = settle(new, now, self.resend_s)
            return s if new == s else new

        return whole

    def transact(
        self,
        run_id: str,
        change: Event,
        *,
        focus: Focus | None = None,
        basis: Snapshot | None = None,
        at: datetime | None = None,
        is_blind: bool = True,
        as_stored: bool = False,
    ) -> Transition | None:
        """As `Store.transact`; a run of which something cannot be read is parked, where this world parks.

        Raises:
            PayloadUnreadable: something cannot be read; nothing but the parking was written.
        """
        try:
            transition = self.store.transact(
                run_id, change, focus=focus, basis=basis, at=at, is_blind=is_blind, as_stored=as_stored
            )
        except PayloadUnreadable as error:
            self.park_unreadable(run_id, error)
            raise
        self.observe(transition)
        return transition

    def observe(self, transition: Transition | None) -> None:
        """Tell of a committed transition, in the log and whoever else watches; decides and sends nothing."""
        if transition is not None and transition.new is not transition.old:
            journal.tell(transition, self.definitions.is_declared)
            self.watch(transition)

    def refused(self, run_id: str, why: str) -> PayloadUnreadable:
        """The error to raise where something of a run was read that cannot be; the run is parked, if this world parks.

        Args:
            why: what is wrong, as of `Loaded.unreadable`.
        """
        error = cannot_be_read(run_id, why)
        self.park_unreadable(run_id, error)
        return error

    def park_unreadable(self, run_id: str, error: PayloadUnreadable) -> None:
        """Park a run of which something cannot be read; nothing is done where it is parked, or where this does not."""
        if not self.parks:
            return

        def change(s: Snapshot, now: datetime) -> Snapshot:
            return unreadable(s, now, error)

        transition = self.store.transact(run_id, change, as_stored=True)
        self.observe(transition)
        self.follow(transition)

    def follow(self, transition: Transition | None, *, decides: bool = False) -> None:
        """What follows a commit: its messages go out, and lanes are looked at where it has moved slots.

        Args:
            decides: the caller goes on to decide the run, which needs no message for that.
        """
        if transition is None or transition.new is transition.old:
            return
        self.tell(transition, decides=decides)
        self.admit(transition)

    def admit(self, transition: Transition) -> None:
        """Look at the lanes where a committed transition has moved slots."""
        try:
            admission.follow(self, transition)
        except StoreUnavailable:
            return  # it is committed, and those slots have their wake-up

    def tell(self, transition: Transition, *, decides: bool = False) -> None:
        """Send the messages of a committed transition."""
        if transition.new is transition.old:
            return
        if transition.old.is_live and not transition.new.is_live:
            self.store.waiters.ring(transition.new.run.id, elsewhere=not transition.is_private)
        run = transition.new.run
        messages = [each for each in messages_of(transition) if not (decides and is_for(each, run))]
        sent = self.publisher.publish(messages)
        if 0 < sent < len(messages):
            self._leave_unsent(transition.new.run, messages[sent:])

    def _leave_unsent(self, run: RunRecord, messages: Sequence[Message]) -> None:
        """What the time for publishing did not suffice for, as in a join of thousands of parts, is the sweeper's now.

        Otherwise it would pass for sent, be looked at after a lease, and then be put off while others fill the queue.
        """
        steps = [each.step if isinstance(each, StepMessage) else each.part for each in messages]
        keys = [step.key for step in steps if step is not None]
        try:
            self.store.leave_unsent(run.id, run.generation, keys)
        except StoreUnavailable:
            return  # they are due all the same, later

    def change_existing(self, run_id: str, event: Event, *, as_stored: bool = False) -> Transition:
        """`change` for operators.

        Raises:
            RunNotFound: there is no such run; nothing was written.
            ResultPurged: only its key is left; nothing was written.
        """
        transition = self.change(run_id, event, as_stored=as_stored)
        if transition is None:
            raise RunNotFound(f"run {run_id!r}: there is no such run; nothing was changed", run_id=run_id)
        refuse_purged(transition.new.run)
        return transition

    def look(self, s: Snapshot, now: datetime) -> Snapshot:
        """The event of a mere wake-up: requests are carried out, and open waits take what is in the inbox."""
        return deliver(carry_out(s, now), now, self.resend_s)
