"""Schedules: said, paused, removed, and fired: a run is started for each nominal time that has come, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from celery_saga.core import schedules as core
from celery_saga.core.schedules import (
    Done,
    FireRecord,
    NextAfter,
    PatternKind,
    Plan,
    ScheduleChange,
    ScheduleRecord,
    Wanted,
)
from celery_saga.engine import start
from celery_saga.engine.journal import tell_not_fired
from celery_saga.engine.nominal import times_of
from celery_saga.engine.world import World
from celery_saga.errors import IdempotencyConflict, SagaError, ScheduleNotFound, UnknownSaga

__all__ = ["ScheduleBook", "ScheduleDriver", "fire"]


class ScheduleDriver(Protocol):
    """Something else than the sweeper that wakes schedules, and in which people see and edit them.

    It is told before the store is, so that whatever it has and the store has not is somebody's wish.
    """

    name: str  # of `Wanted.driver`

    def check(self, wanted: Wanted) -> None:
        """Refuse what it cannot show. DefinitionError: naming it; nothing was written."""

    def put(self, wanted: Wanted, *, paused: bool) -> None:
        """Show the schedule as it is wanted."""

    def pause(self, saga: str, id_: str, *, paused: bool) -> None:
        """Show that the schedule is paused, or is not."""

    def remove(self, saga: str, id_: str) -> None:
        """Show it no more."""

    def reconcile(self) -> None:
        """Write to the schedules what people have done while nobody looked."""

    def let_go(self) -> None:
        """Close what this thread has opened."""


class ScheduleBook:
    """The schedules of one app.

    Args:
        world: ports and numbers.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.zone = "UTC"
        """The time zone of cron expressions that bring none."""
        self.owner = ""
        """The app whose settings name schedules here."""
        self.find_driver: Callable[[], ScheduleDriver | None] = _no_driver
        """What wakes schedules instead of the sweeper; None: the sweeper does."""

    # -- said ----------------------------------------------------------------------------------------------------
    @property
    def driver(self) -> str:
        """What wakes the schedules that are made here: `Wanted.driver`."""
        found = self.find_driver()
        return "sweeper" if found is None else found.name

    def put(self, wanted: Wanted, *, shown: bool = False) -> tuple[ScheduleRecord, bool]:
        """Write a schedule, or change the one that is there; the stored one, and whether anything was changed.

        Args:
            shown: the driver, where there is one, shows it already.
        Raises:
            DefinitionError: it would never fire, or its driver cannot show it; nothing was written.
            StoreUnavailable, SchemaOutdated: the database cannot be used.
        """
        driver = None if shown else self.find_driver()
        there = self._world.store.schedule(wanted.saga, wanted.id)
        if driver is not None:
            driver.check(wanted)
            # What could not be stored must not be shown either.
            now = self._world.store.now()
            planned = core.put(there, wanted, now, _times(wanted, now))
            driver.put(wanted, paused=planned.paused or planned.next_at is None)
        before: list[ScheduleRecord | None] = []

        def change(s: ScheduleRecord | None, last: FireRecord | None, now: datetime) -> ScheduleChange:
            before[:] = [s]
            return ScheduleChange(core.put(s, wanted, now, _times(wanted, now)))

        done = self._world.store.change_schedule(wanted.saga, wanted.id, change).schedule
        assert done is not None
        return done, done != before[0]

    def remove(self, saga: str, id_: str, *, shown: bool = False) -> bool:
        """Remove a schedule with its log; False: there was none. Runs that it started are left alone."""
        driver = None if shown else self.find_driver()
        if driver is not None:
            driver.remove(saga, id_)
        before: list[bool] = []

        def change(s: ScheduleRecord | None, last: FireRecord | None, now: datetime) -> ScheduleChange:
            before[:] = [s is not None]
            return ScheduleChange(None)

        self._world.store.change_schedule(saga, id_, change)
        return before[0]

    def pause(
        self, saga: str, id_: str, *, reason: str = "", by: str | None = None, shown: bool = False
    ) -> ScheduleRecord:
        """Skip its nominal times from now on; paused already: nothing is changed.

        Raises:
            ScheduleNotFound: there is none; nothing was written.
        """
        self.get(saga, id_)
        driver = None if shown else self.find_driver()
        if driver is not None:
            driver.pause(saga, id_, paused=True)
        return self._change(saga, id_, lambda s, _, now: ScheduleChange(core.pause(s, now, reason=reason, by=by)))

    def unpause(self, saga: str, id_: str, *, shown: bool = False) -> ScheduleRecord:
        """Fire again, from the next nominal time in the future on; not paused: nothing is changed.

        Raises:
            ScheduleNotFound: there is none; nothing was written.
        """
        self.get(saga, id_)
        driver = None if shown else self.find_driver()
        if driver is not None:
            driver.pause(saga, id_, paused=False)
        return self._change(saga, id_, lambda s, last, now: core.unpause(s, now, last, times_of_schedule(s)))

    def _change(
        self,
        saga: str,
        id_: str,
        change: Callable[[ScheduleRecord, FireRecord | None, datetime], ScheduleChange],
    ) -> ScheduleRecord:
        def existing(s: ScheduleRecord | None, last: FireRecord | None, now: datetime) -> ScheduleChange:
            if s is None:
                raise _not_found(saga, id_)
            return change(s, last, now)

        done = self._world.store.change_schedule(saga, id_, existing).schedule
        assert done is not None
        return done

    # -- read ----------------------------------------------------------------------------------------------------
    def get(self, saga: str, id_: str) -> ScheduleRecord:
        """The schedule as it is stored.

        Raises:
            ScheduleNotFound: there is none.
        """
        found = self._world.store.schedule(saga, id_)
        if found is None:
            raise _not_found(saga, id_)
        return found

    def now(self) -> datetime:
        """The database's time, by which schedules go."""
        return self._world.store.now()

    def all(self) -> list[ScheduleRecord]:
        """All schedules, by saga and id."""
        return self._world.store.schedules()

    def fires(self, saga: str, id_: str, *, limit: int = 100) -> list[FireRecord]:
        """What became of its nominal times, newest first.

        Raises:
            ScheduleNotFound: there is none.
        """
        self.get(saga, id_)
        return self._world.store.fires(saga, id_, limit=limit)

    # -- fired ---------------------------------------------------------------------------------------------------
    def wake(self, saga: str, id_: str) -> bool:
        """Fire a schedule if it is due and nobody else does; False: nothing was to be done.

        Raises:
            ScheduleNotFound: there is none.
        """
        taken: list[bool] = []

        def take(s: ScheduleRecord, last: FireRecord | None, now: datetime) -> ScheduleChange:
            held = core.claim(s, now, self._world.limits.lease_s)
            taken[:] = [held is not s]
            return ScheduleChange(held)

        held = self._change(saga, id_, take)
        if taken[0]:
            fire(self._world, held)
        return taken[0]


def fire(world: World, held: ScheduleRecord) -> None:
    """Start what is due of a schedule that is held by this caller, and write what was done.

    What keeps a run from being started is written to the schedule, which is tried again after a delay that doubles.
    Where not even that can be written, it is due again when the hold ends; the runs that were started are found then.
    """
    saga, id_ = held.saga, held.id
    try:
        done = _start_due(world, held)
        world.store.change_schedule(
            saga,
            id_,
            lambda s, last, now: ScheduleChange(None) if s is None else core.settle(s, last, now, on=held, done=done),
        )
    except Exception as error:  # noqa: BLE001 - told: whoever wakes everything goes on, and finds it due again
        tell_not_fired(held, _told(error))
        return
    if done.error is not None:
        tell_not_fired(held, done.error)


def _start_due(world: World, held: ScheduleRecord) -> Done:
    now = world.store.now()
    busy = held.overlap == "skip" and not held.paused and world.store.is_busy(held.saga, held.id)
    try:
        plan = core.plan(held, now, busy=busy, after=times_of_schedule(held))
    except SagaError as error:  # a zone that this machine does not have
        return Done(Plan((), (), held.next_at, held.exempt_until_at), (), failed_at=held.next_at, error=_told(error))
    runs: list[tuple[datetime, str]] = []
    for at in plan.fire:
        try:
            runs.append((at, _start(world, held, at)))
        except Exception as error:  # noqa: BLE001 - recorded: a function of the user's that names a lane may raise anything
            return Done(plan, tuple(runs), failed_at=at, error=_told(error))
    return Done(plan, tuple(runs))


def _start(world: World, held: ScheduleRecord, at: datetime) -> str:
    """Start the run of one nominal time, or find it; its id."""
    new = world.definitions.scheduled(held, at)
    if new is None:
        raise UnknownSaga(
            f"schedule {held.id!r}: this process knows no saga {held.saga!r} of version {held.version} or higher; "
            "nothing was started. It is tried again; import its module in the workers, or remove the schedule."
        )
    try:
        return start.start(world, new)[0].id
    except IdempotencyConflict as error:
        # Started before its arguments were changed, by somebody who could not write it down.
        assert error.run_id is not None
        return error.run_id


def times_of_schedule(s: ScheduleRecord) -> NextAfter:
    """Gives its nominal times.

    Raises:
        DefinitionError: its zone is not known here.
    """
    return times_of(s.kind, s.pattern, s.tz, s.anchor_at)


def _times(wanted: Wanted, now: datetime) -> NextAfter:
    return times_of(PatternKind(wanted.kind), wanted.pattern, wanted.tz, now)


def _told(error: BaseException) -> str:
    code = f"{error.code}: " if isinstance(error, SagaError) else f"{type(error).__name__}: "
    return code + str(error)


def _not_found(saga: str, id_: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"saga {saga!r} has no schedule {id_!r}; nothing was changed")


def _no_driver() -> ScheduleDriver | None:
    return None
