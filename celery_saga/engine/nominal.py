"""The nominal times of a schedule: cron expressions in time zones, intervals from an anchor, single instants.

Cron is read by cronsim, which does what Debian's cron does when clocks change: a job at a time of day that is left out
fires when the clock has been put forward, one at a time that comes twice fires the first time; a job whose minute or
hour begins with `*` goes by elapsed time.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from celery_saga.core.schedules import NextAfter, PatternKind
from celery_saga.errors import DefinitionError

__all__ = ["check_cron", "check_zone", "times_of"]

_CRON_FIELDS = 5
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def times_of(kind: PatternKind, pattern: str, tz: str, anchor_at: datetime) -> NextAfter:
    """Gives the first nominal time after an instant, in UTC.

    Raises:
        DefinitionError: the pattern or the zone cannot be read here.
    """
    if kind is PatternKind.CRON:
        check_cron(pattern, "the schedule's cron expression")
        return _cron(pattern, check_zone(tz, "the schedule's time zone"))
    if kind is PatternKind.EVERY:
        return _every(timedelta(seconds=float(pattern)), anchor_at)
    return _at(datetime.fromisoformat(pattern))


def check_cron(expression: object, what: str) -> str:
    """The expression in its one form, fields parted by single blanks.

    Raises:
        DefinitionError: it has not five fields, a field cannot be read, or it never comes; nothing was written.
    """
    if not isinstance(expression, str) or len(expression.split()) != _CRON_FIELDS:
        raise DefinitionError(
            f"{what} must have five fields, minute hour day-of-month month day-of-week, like '30 2 * * mon-fri', got "
            f"{expression!r}; nothing was written."
        )
    named = what + ("" if what.endswith("=") else " ") + repr(expression)
    try:
        next(CronSim(expression, _SOME_DAY))
    except CronSimError as error:
        raise DefinitionError(f"{named} cannot be read: {error}; nothing was written.") from None
    except StopIteration:
        raise DefinitionError(f"{named} never comes; nothing was written.") from None
    return " ".join(expression.split())


def check_zone(name: object, what: str) -> ZoneInfo:
    """The time zone of this name.

    Raises:
        DefinitionError: there is none; nothing was written.
    """
    try:
        if isinstance(name, str) and name:
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    raise DefinitionError(
        f"{what} must be the name of a time zone, like 'Europe/Berlin' or 'UTC', got {name!r}; nothing was written."
    )


def _cron(expression: str, zone: ZoneInfo) -> NextAfter:
    def after(at: datetime) -> datetime | None:
        # An own search each time: the state of one that goes on would hang on where it began.
        try:
            found = next(CronSim(expression, at.astimezone(zone)), None)
            return None if found is None else found.astimezone(UTC)
        except OverflowError:  # the calendar ends first
            return None

    return after


def _every(span: timedelta, anchor_at: datetime) -> NextAfter:
    def after(at: datetime) -> datetime | None:
        passed = max(0, (at - anchor_at) // span)
        try:
            return anchor_at + (passed + 1) * span
        except OverflowError:
            return None

    return after


def _at(instant: datetime) -> NextAfter:
    return lambda at: instant if at < instant else None
