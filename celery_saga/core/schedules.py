"""Schedules as values: what is stored of one, when it is due, and what its firing leaves behind.

A schedule has *nominal times*: what its pattern says. They come from its row alone, so whoever wakes it, and however
often, finds the same ones, and the run of a nominal time has a key that is made of it. A nominal time is handled once:
a run is started for it, or it is skipped, and either is told by a row of the fire log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from celery_saga.core import codec, wakeup
from celery_saga.core.replacing import replace
from celery_saga.errors import DefinitionError

FIRES_KEPT = 1000
"""So many rows of the fire log are kept of each schedule, the newest."""
MOST_TIMES = 1000
"""So many nominal times of one schedule are handled at once; what is more is due again at once."""
MOST_FIRES = 20
"""So many runs of one schedule are started at once, where each missed time gets one."""
BEAT_GRACE_S = 30.0
"""How long a beat that is to wake a schedule is waited for, before the sweeper does it."""
LONGEST_DELAY_S = 60.0
"""A schedule that cannot be fired is tried again at the latest after so long."""


class PatternKind(StrEnum):
    """How a schedule says when."""

    CRON = "cron"  # an expression of five fields, in a time zone
    EVERY = "every"  # so many seconds, counted from the anchor
    AT = "at"  # once


class FireOutcome(StrEnum):
    """What became of a nominal time."""

    FIRED = "fired"
    SKIPPED = "skipped"


class SkipReason(StrEnum):
    """Why a nominal time got no run."""

    OVERLAP = "overlap"  # a run of the schedule was still live
    MISSED = "missed"  # it was over before anybody could look, and a later one came
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody says of a schedule; checked and encoded.

    `pattern` is a cron expression, seconds, or an instant in ISO 8601; `tz` is the zone of a cron expression.
    `owner` is the app whose settings it stands in. `driver` is what wakes it: sweeper or beat.
    """

    saga: str
    id: str
    version: int
    kind: PatternKind
    pattern: str
    tz: str
    input_text: str
    input_digest: str
    overlap: str = "skip"
    catch_up: str = "latest"
    source: str = "code"
    owner: str = ""
    driver: str = "sweeper"


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """One schedule as stored. Instants are aware UTC.

    `next_at` is the next nominal time, None when there is none any more; `wake_at` when somebody looks at it.
    `handled_at` is the last nominal time that was handled, `last_fire_at` the last that got a run.
    """

    saga: str
    id: str
    version: int
    kind: PatternKind
    pattern: str
    tz: str
    input_text: str
    input_digest: str
    overlap: str
    catch_up: str
    source: str  # code, settings, cli, beat
    owner: str
    driver: str
    created_at: datetime
    updated_at: datetime
    anchor_at: datetime
    next_at: datetime | None
    wake_at: datetime | None
    last_fire_at: datetime | None = None
    last_run_id: str | None = None
    handled_at: datetime | None = None
    exempt_until_at: datetime | None = None  # missed times up to here are fired whatever overlaps
    paused: bool = False
    pause_reason: str | None = None
    pause_by: str | None = None
    failures: int = 0  # times in a row that it could not be fired
    error: str | None = None  # of the last of them
    fire_seq: int = 0

    @property
    def input(self) -> Any:
        """The arguments of its runs, by parameter name, as plain values."""
        return codec.decode(self.input_text)

    @property
    def says(self) -> Wanted:
        """What was said of it."""
        return Wanted(**{name: getattr(self, name) for name in Wanted.__slots__})


@dataclass(frozen=True, slots=True)
class FireRecord:
    """A nominal time that was handled, or several in a row that were skipped for one reason.

    `seq` counts from 1 within the schedule; `until_at` is the last of `count` nominal times, `at` when it was written.
    """

    saga: str
    schedule: str
    seq: int
    nominal_at: datetime
    until_at: datetime
    count: int
    outcome: FireOutcome
    reason: SkipReason | None
    run_id: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """What becomes of a schedule: its new state (None: it is removed, with its log), and rows of its log."""

    schedule: ScheduleRecord | None
    fires: tuple[FireRecord, ...] = ()


NextAfter = Callable[[datetime], datetime | None]
"""The first nominal time after an instant; None: there is none."""


def run_key(schedule_id: str, nominal_at: datetime) -> str:
    """The key of the run of one nominal time."""
    return f"schedule:{schedule_id}:{nominal_at.astimezone(UTC).isoformat()}"


def planned_wake(s: ScheduleRecord) -> datetime | None:
    """When somebody is to look at a schedule that nobody holds."""
    if s.next_at is None or s.driver != "beat" or s.paused:
        return s.next_at
    return wakeup.after(s.next_at, BEAT_GRACE_S)


def put(there: ScheduleRecord | None, wanted: Wanted, now: datetime, after: NextAfter) -> ScheduleRecord:
    """The schedule as it is wanted; the same object where nothing changes.

    A changed pattern begins anew: its next time is in the future, counted from now. What was fired stays as it was.

    Raises:
        DefinitionError: it would never fire; nothing was written.
    """
    said = {name: getattr(wanted, name) for name in Wanted.__slots__}
    if there is not None and there.says == wanted:
        return there
    if there is not None and (there.kind, there.pattern, there.tz) == (wanted.kind, wanted.pattern, wanted.tz):
        changed = replace(there, **said, updated_at=now, failures=0, error=None)
        return replace(changed, wake_at=planned_wake(changed))
    next_at = after(now)
    if next_at is None:
        raise DefinitionError(
            f"schedule {wanted.id!r} of saga {wanted.saga!r}: {wanted.kind.value}={wanted.pattern!r} is over, it would "
            "never fire; nothing was written, and what is stored was left unchanged."
        )
    if there is None:
        new = ScheduleRecord(**said, created_at=now, updated_at=now, anchor_at=now, next_at=next_at, wake_at=None)
    else:
        again: dict[str, Any] = {"anchor_at": now, "next_at": next_at, "exempt_until_at": None}
        new = replace(there, **said, **again, updated_at=now, failures=0, error=None)
    return replace(new, wake_at=planned_wake(new))


def pause(s: ScheduleRecord, now: datetime, *, reason: str, by: str | None) -> ScheduleRecord:
    """Its nominal times are skipped from now on; paused already: the same."""
    if s.paused:
        return s
    new = replace(s, paused=True, pause_reason=reason or None, pause_by=by, updated_at=now)
    return replace(new, wake_at=planned_wake(new))


def unpause(s: ScheduleRecord, now: datetime, last: FireRecord | None, after: NextAfter) -> ScheduleChange:
    """It fires again, from its next time in the future on; what came due meanwhile was skipped."""
    if not s.paused:
        return ScheduleChange(s)
    rows = _Log(s, last, now)
    at = s.next_at
    for _ in range(MOST_TIMES):
        if at is None or at > now:
            break
        rows.skip(at, SkipReason.PAUSED)
        at = after(at)
    handled = rows.schedule
    next_at = at if at is None or at > now else after(now)
    new = replace(handled, paused=False, pause_reason=None, pause_by=None, next_at=next_at, updated_at=now)
    return ScheduleChange(replace(new, wake_at=planned_wake(new)), rows.written)


def claim(s: ScheduleRecord, now: datetime, hold_s: float) -> ScheduleRecord:
    """Held for whoever is to fire it now; the same where nothing is due, or somebody else holds it."""
    is_due = s.next_at is not None and s.next_at <= now
    is_held = s.wake_at is not None and s.wake_at > now and s.wake_at != planned_wake(s)
    return s if not is_due or is_held else replace(s, wake_at=wakeup.after(now, hold_s))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about the nominal times that have come: runs to start, skips, and what is due then."""

    fire: tuple[datetime, ...]
    skips: tuple[tuple[datetime, SkipReason], ...]
    next_at: datetime | None
    exempt_until_at: datetime | None


def plan(s: ScheduleRecord, now: datetime, *, busy: bool, after: NextAfter) -> Plan:
    """What is to be done now.

    Args:
        busy: a run of the schedule is live.
    """
    times, rest = _due(s, now, after)
    exempt_until_at = s.exempt_until_at
    if s.paused:
        return Plan((), tuple((at, SkipReason.PAUSED) for at in times), rest, exempt_until_at)
    if s.catch_up == "all":
        exempt = [at for at in times if exempt_until_at is not None and at <= exempt_until_at]
        others = times[len(exempt) :]
        if busy and others and s.overlap == "skip":
            if not exempt:
                return Plan((), tuple((at, SkipReason.OVERLAP) for at in others), rest, exempt_until_at)
            times, rest = exempt, others[0]
        elif len(times) > 1:
            exempt_until_at = now
        fire = tuple(times[:MOST_FIRES])
        return Plan(fire, (), times[MOST_FIRES] if len(times) > MOST_FIRES else rest, exempt_until_at)
    missed = times if rest is not None and rest <= now else times[:-1]
    skips = [(at, SkipReason.MISSED) for at in missed]
    last = times[len(missed) :]
    if busy and s.overlap == "skip":
        return Plan((), (*skips, *((at, SkipReason.OVERLAP) for at in last)), rest, exempt_until_at)
    return Plan(tuple(last), tuple(skips), rest, exempt_until_at)


def _due(s: ScheduleRecord, now: datetime, after: NextAfter) -> tuple[list[datetime], datetime | None]:
    times: list[datetime] = []
    at = s.next_at
    while at is not None and at <= now and len(times) < MOST_TIMES:
        times.append(at)
        at = after(at)
    return times, at


@dataclass(frozen=True, slots=True)
class Done:
    """What was done of a plan: the runs that were started, and what kept the others from it.

    `failed_at` is the nominal time whose run could not be started, `error` why.
    """

    plan: Plan
    runs: tuple[tuple[datetime, str], ...]
    failed_at: datetime | None = None
    error: str | None = None


def settle(
    s: ScheduleRecord, last: FireRecord | None, now: datetime, *, on: ScheduleRecord, done: Done
) -> ScheduleChange:
    """The schedule after its firing.

    Args:
        s: as it is now, under the lock.
        last: the newest row of its log.
        on: as it was when the plan was made. Where its pattern has been changed since, only what was done is told.
    """
    rows = _Log(s, last, now)
    fired = dict(done.runs)
    reasons = dict(done.plan.skips)
    for at in sorted({*fired, *reasons}):
        if at in fired:
            rows.fired(at, fired[at])
        else:
            rows.skip(at, reasons[at])
    new = rows.schedule
    if (s.kind, s.pattern, s.tz, s.next_at) != (on.kind, on.pattern, on.tz, on.next_at):
        return ScheduleChange(new, rows.written)
    if done.failed_at is None:
        new = replace(new, next_at=done.plan.next_at, failures=0, error=None)
        new = replace(new, exempt_until_at=done.plan.exempt_until_at)
        return ScheduleChange(replace(new, wake_at=planned_wake(new)), rows.written)
    delay_s = min(2.0 ** min(new.failures, 10), LONGEST_DELAY_S)
    new = replace(new, next_at=done.failed_at, failures=new.failures + 1, error=done.error)
    return ScheduleChange(replace(new, wake_at=now + timedelta(seconds=delay_s)), rows.written)


class _Log:
    """Rows that are added to the log of a schedule; skips of one reason in a row are one row."""

    def __init__(self, schedule: ScheduleRecord, last: FireRecord | None, now: datetime) -> None:
        self.schedule = schedule
        self._last = last
        self._now = now
        self._rows: dict[int, FireRecord] = {}

    @property
    def written(self) -> tuple[FireRecord, ...]:
        return tuple(self._rows.values())

    def fired(self, at: datetime, run_id: str) -> None:
        if self._handles(at):
            self._add(at, FireOutcome.FIRED, None, run_id)
            self.schedule = replace(self.schedule, last_fire_at=at, last_run_id=run_id)

    def skip(self, at: datetime, reason: SkipReason) -> None:
        if not self._handles(at):
            return
        last = self._last
        if last is not None and last.reason is reason:
            self._put(replace(last, until_at=at, count=last.count + 1, at=self._now))
        else:
            self._add(at, FireOutcome.SKIPPED, reason, None)

    def _handles(self, at: datetime) -> bool:
        # Whoever comes second finds it done.
        handled_at = self.schedule.handled_at
        if handled_at is not None and at <= handled_at:
            return False
        self.schedule = replace(self.schedule, handled_at=at)
        return True

    def _add(self, at: datetime, outcome: FireOutcome, reason: SkipReason | None, run_id: str | None) -> None:
        s = self.schedule = replace(self.schedule, fire_seq=self.schedule.fire_seq + 1)
        self._put(FireRecord(s.saga, s.id, s.fire_seq, at, at, 1, outcome, reason, run_id, self._now))

    def _put(self, row: FireRecord) -> None:
        self._last = row
        self._rows[row.seq] = row


def unnamed(sources: Iterable[ScheduleRecord], named: Sequence[tuple[str, str]], owner: str) -> list[ScheduleRecord]:
    """Those that an app's settings made and name no more."""
    kept = set(named)
    return [s for s in sources if s.source == "settings" and s.owner == owner and (s.saga, s.id) not in kept]
