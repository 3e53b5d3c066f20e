"""What is asked of a store of runs, and the values that pass between it and the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self

from celery_saga.core.due import DueStore
from celery_saga.core.focus import Extent, Focus
from celery_saga.core.lanes import LaneStore
from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepRecord
from celery_saga.core.retention import RetentionStore
from celery_saga.core.schedules import FireRecord, ScheduleChange, ScheduleRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot with the database's time at which it was read.

    `is_held_back`: the run needs no slot so far, and has to queue now: a cap or a pause has come over its saga.
    """

    snapshot: Snapshot
    now: datetime
    unreadable: str | None = None  # why something of it cannot be read, see `core.unreadable`; None: all can
    is_held_back: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """The database's time, and whether a new run of a saga has to queue: the saga, or all, are capped or paused."""

    now: datetime
    is_held_back: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """A committed transition: what was, what is, and the database's time that it carries.

    `lanes`: where its slots have moved, so that somebody has to look there now. `is_private`: no other process listens
    for the run's end.
    """

    old: Snapshot
    new: Snapshot
    now: datetime
    lanes: tuple[str, ...] = ()
    is_private: bool = False


class Fleet(NamedTuple):
    """Sweepers that are alive, as one of them sees them: how many, how many before it by name, and when."""

    alive: int
    before: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim that landed: the step as claimed, and the run's records read in the same transaction."""

    step: StepRecord
    snapshot: Snapshot
    now: datetime


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A saga that is data, as it was stored when the first run of its name and version started.

    `digest` tells equal graphs; `graph_text` is JSON; `created_at` is aware UTC.
    """

    name: str
    version: int
    digest: str
    graph_text: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; None means any.

    `after` is the id of the last run of the page before, and `after_at` when that was created; without it, it is looked
    up, which needs the run to be there still.
    """

    saga: str | None = None
    version: int | None = None
    status: tuple[str, ...] | None = None
    key: str | None = None
    lane: str | None = None
    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    attention: bool = False  # only suspended and compensation_failed
    late_s: float | None = None  # only those that nothing has moved for so long after they were due, or see REPEATED
    purged: bool = False  # only those of which just the key is kept, instead of the others
    limit: int = 100
    after: str | None = None
    after_at: datetime | None = None


REPEATED = 5
"""A wake-up that was sent, or put off, so often without being taken up shows that nobody takes it up."""


@dataclass(frozen=True, slots=True)
class DeskUndo:
    """An undo of a run on the desk that has failed, or that nobody could order; nothing of its payload.

    `step` is the key of what it undoes. `next_at`: when its next attempt is due or, while one runs, its lease ends.
    """

    run_id: str
    step: str
    task: str
    status: StepStatus
    attempt: int
    failures: int
    stalls: int
    error_text: str | None
    next_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeskRow:
    """A run that needs a person, without input and result, and its undos that have failed, oldest first."""

    run: RunRecord
    undos: tuple[DeskUndo, ...]


Change = Callable[[Snapshot, datetime], Snapshot]
"""A transition: pure, from the snapshot read under the lock and the database's time read after it.

It may raise Incomplete where the snapshot holds too few of the run's steps, and is then called again on more.
"""

ChangeSchedule = Callable[[ScheduleRecord | None, FireRecord | None, datetime], ScheduleChange]
"""What becomes of a schedule: pure, from its row (None: there is none) and the newest row of its log, read under its
lock, and the database's time read after it."""


class Watch(Protocol):
    """One who waits for a run, a context manager."""

    def __enter__(self) -> Self:
        """It waits."""

    def __exit__(self, *_: object) -> None:
        """It waits no more."""


class Waiters(Protocol):
    """Who waits for runs in this process."""

    def watch(
        self, run_id: str, call: Callable[[], object], *, after: int | None = None, at_once: bool = False
    ) -> Watch:
        """Have `call` called once, in another thread, when there may be news of a run; it may be called for nothing.

        Args:
            after: news are history rows with a `seq` above it, and the end; None: only the end.
            at_once: the run was not looked at yet.
        """

    def ring(self, run_id: str, *, elsewhere: bool = True) -> None:
        """The end of a run is committed; with `elsewhere` other processes are told, too. Never raises."""


class Store(DueStore, LaneStore, RetentionStore, Protocol):
    """SQL tables of runs; each method is one transaction of its own.

    All raise StoreUnavailable when the database is out of reach (nothing was written), and SchemaOutdated when the
    tables are missing or older than the code.
    """

    @property
    def waiters(self) -> Waiters:
        """Who waits for runs in this process."""

    def now(self) -> datetime:
        """The database's time."""

    def start_run(
        self, saga: str, make: Callable[[Arrival], RunRecord], *, eta: datetime | None, look_s: float
    ) -> tuple[RunRecord, bool]:
        """As `insert_run`, of what `make` makes of an arrival and maybe of `eta`; slots are looked at in `look_s`."""

    def insert_run(self, run: RunRecord, *, look_at: datetime | None = None) -> tuple[RunRecord, bool]:
        """Write a new run; True: it was written. Where its id exists: the stored one (with input) and False.

        Args:
            look_at: when a sweeper looks at its slots, if it asks for any and nobody does before.
        """

    def load(
        self,
        run_id: str,
        *,
        generation: int | None = None,
        extent: Extent = Extent.LIVE,
        focus: Focus | None = None,
    ) -> Loaded | None:
        """Read a run, its steps and its inbox without a lock: the run first, so that no version read is too new.

        Args:
            focus: only these steps; None: as `extent` says.
            generation: whose steps; None: the present one's.
            extent: all steps, or only those that are not folded.
        """

    def transact(
        self,
        run_id: str,
        change: Change,
        *,
        focus: Focus | None = None,
        basis: Snapshot | None = None,
        at: datetime | None = None,
        is_blind: bool = True,
        as_stored: bool = False,
    ) -> Transition | None:
        """Lock the run, load it, apply `change`, write the difference, commit. None: there is no such run.

        Loaded are the steps that are not folded, or only those of `focus`; more where `change` raises Incomplete.
        `basis` is what the caller's own last transition left: while the run's version is still that, it stands for what
        would be loaded, and its steps are guarded like loaded ones. With `at`, about the time that it is now by the
        database's clock, the change may be worked out before the lock is had, as `core.moments` says.

        `change` may be called again: after a deadlock, a lock time-out, a serialization failure, a guarded write that
        did not land, or a connection lost before or at the commit. Whatever it raises rolls back and is raised.
        A snapshot returned unchanged (the same object) writes nothing. `state_version` is raised by the store.

        Args:
            is_blind: the change heeds no signal, so none that has come since need stop it; False: the basis stands for
                what would be loaded only where it is known that none has.
            as_stored: texts that cannot be read travel as they are; else nothing is changed of a run with such.
        Raises:
            PayloadUnreadable: something of the run cannot be read; nothing was written.
        """

    def claim(
        self,
        run_id: str,
        generation: int,
        key: str,
        *,
        token: str,
        owner: str,
        lease_s: float,
        focus: Focus | None = None,
    ) -> Claimed | None:
        """Take a scheduled step that was sent (`sends` > 0): compare-and-set to running, fresh token, attempt + 1.

        None: it is not there to be taken. Raises PayloadUnreadable, and takes nothing, where something that is read
        with it cannot be read. On PostgreSQL it may commit asynchronously (SET LOCAL, after the row was
        read) where `core.attempts.may_claim_asynchronously(step)`. Tried again after a commit whose answer was lost, it
        recognises its own token.
        """

    def renew(self, run_id: str, generation: int, key: str, *, token: str, lease_s: float) -> RunRecord | None:
        """Prolong the lease of a running attempt. The run without its input; None: the claim is no longer ours."""

    def status_of(self, run_id: str, generation: int, key: str) -> StepStatus | None:
        """The status of one step, read without a lock; None: there is no such step."""

    def put_signal(self, signal: SignalRecord) -> tuple[SignalRecord, bool]:
        """Write a signal into the inbox, whether or not its run exists; False: its (run, name, id) was there."""

    def change_schedule(self, saga: str, id_: str, change: ChangeSchedule) -> ScheduleChange:
        """Lock a schedule, apply `change`, write the difference, commit. What `change` raises rolls back and is raised.

        `change` may be called again, as that of `transact`. A removed schedule takes its log along; of each log the
        newest `FIRES_KEPT` rows are kept. A row of the log whose `seq` is there already is changed in place.
        """

    def schedule(self, saga: str, id_: str) -> ScheduleRecord | None:
        """One schedule; None: there is none of that name."""

    def schedules(self) -> list[ScheduleRecord]:
        """All schedules, by saga and id."""

    def fires(self, saga: str, id_: str, *, limit: int) -> list[FireRecord]:
        """The log of a schedule, newest first."""

    def is_busy(self, saga: str, id_: str) -> bool:
        """Whether a run that the schedule started, as far as its log goes back, has not ended."""

    def beat(self, name: str, *, host: str, pid: int, sagas: Iterable[tuple[str, int]], ttl_s: float) -> Fleet:
        """Write that this sweeper is alive and which sagas it knows; it and those that were seen within `ttl_s`."""

    def leave(self, name: str) -> None:
        """Forget this sweeper: it has stopped in good order, and nobody need share the ticks with it."""

    def definition(self, name: str, version: int) -> StoredDefinition | None:
        """The stored definition of this name and version; None: there is none."""

    def put_definition(self, name: str, version: int, *, digest: str, graph_text: str) -> StoredDefinition:
        """Store a definition unless its name and version are taken; what is stored under them now."""

    def runs(self, wanted: RunFilter) -> list[RunRecord]:
        """Runs without input, result and other payloads, newest first.

        Raises:
            InvalidPayload: `after` is no run, and `after_at` is not given.
        """

    def desk(self, *, saga: str | None, after: tuple[datetime, str] | None, limit: int) -> list[DeskRow]:
        """Runs that need a person, the one that has waited longest first.

        Args:
            after: `attention_at` and id of the last run of the page before; that one need not be on the desk any more.
        """

    def steps(self, run_id: str, *, all_generations: bool = False) -> list[StepRecord]:
        """Steps of a run, in order of creation."""

    def history(self, run_id: str, *, after: int = 0) -> list[HistoryRecord]:
        """History rows with `seq` > after, in order."""

    def signals(self, run_id: str) -> list[SignalRecord]:
        """All signals of a run, taken ones too."""

    def live_versions(self) -> list[tuple[str, int, int]]:
        """(saga, version, number of live runs)."""

    def sweepers(self) -> list[Mapping[str, Any]]:
        """Who swept last when: name, host, pid, seen_at, sagas, alive_s."""

    def without_wake_up(self) -> list[RunRecord]:
        """Live, unparked runs that nothing would ever wake: must be empty (used by doctor and tests)."""
