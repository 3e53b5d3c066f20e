"""When a schedule fires, in the words of django-celery-beat and in ours, compared by what they mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from celery.schedules import ParseException, crontab_parser
from cronsim import CronSim

from celery_saga.engine.nominal import check_cron
from celery_saga.errors import DefinitionError

__all__ = ["FIELDS", "cron_fields", "expression_of", "interval_of", "seconds_of"]

FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
"""Columns of a CrontabSchedule, in the order of a cron expression."""

_RANGES: Final = {"minute": (60, 0), "hour": (24, 0), "day_of_month": (31, 1), "month_of_year": (12, 1)}
_RANGES["day_of_week"] = (7, 0)
_PERIODS_S: Final = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
_SOME_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


def cron_fields(expression: str) -> dict[str, str]:
    """The columns of a CrontabSchedule that wakes at the times of a cron expression.

    Raises:
        DefinitionError: it has what a CrontabSchedule cannot say; nothing was written.
    """
    texts = dict(zip(FIELDS, check_cron(expression, "cron=").split(), strict=True))
    meant = _meant(expression)
    _refuse_either_day(texts, expression)
    return {
        name: texts[name] if _of_celery(name, texts[name]) == meant[name] else _listed(meant[name]) for name in FIELDS
    }


def expression_of(fields: Mapping[str, str]) -> str:
    """The cron expression of the columns of a CrontabSchedule.

    Raises:
        DefinitionError: they cannot be read, or mean something that cron cannot say; nothing was written.
    """
    texts = {name: "".join(str(fields[name]).split()) for name in FIELDS}
    told = " ".join(texts.values())
    _refuse_either_day(texts, told)
    said = []
    for name in FIELDS:
        wanted = _of_celery(name, texts[name])
        if wanted is None:
            raise DefinitionError(
                f"the crontab {told!r} cannot be read: {name} is {texts[name]!r}; nothing was written."
            )
        said.append(texts[name] if _of_cron(name, texts[name]) == wanted else _listed(wanted))
    return check_cron(" ".join(said), "the crontab")


def interval_of(span_s: float) -> tuple[int, str]:
    """The columns `every` and `period` of an IntervalSchedule, in the largest period that says it."""
    micros = round(span_s * 1_000_000)
    for period, length_s in _PERIODS_S.items():
        if micros % (length_s * 1_000_000) == 0:
            return micros // (length_s * 1_000_000), period
    return micros, "microseconds"


def seconds_of(every: int, period: str) -> float:
    """The length of an IntervalSchedule, in seconds."""
    return every / 1_000_000 if period == "microseconds" else float(every * _PERIODS_S[period])


def _refuse_either_day(texts: Mapping[str, str], told: str) -> None:
    # Cron takes either, celery's crontab only both: beat would wake at other days.
    if not texts["day_of_month"].startswith("*") and not texts["day_of_week"].startswith("*"):
        raise DefinitionError(
            f"cron={told!r} names days of the month and of the week: cron fires on either, a crontab of Celery on what "
            "is both, so a PeriodicTask cannot show it; nothing was written. Make it two schedules."
        )


def _meant(expression: str) -> dict[str, frozenset[int]]:
    sim = CronSim(expression, _SOME_DAY)
    sets: tuple[Collection[Any], ...] = (sim.minutes, sim.hours, sim.days, sim.months, sim.weekdays)
    meant: dict[str, frozenset[int]] = {}
    for name, values in zip(FIELDS, sets, strict=True):
        numbers = [value for value in values if isinstance(value, int) and value >= 0]
        if len(numbers) != len(values):
            raise DefinitionError(
                f"cron={expression!r} has L or # in {name}, which a PeriodicTask cannot show; nothing was written."
            )
        meant[name] = frozenset(value % 7 for value in numbers) if name == "day_of_week" else frozenset(numbers)
    return meant


def _of_cron(name: str, text: str) -> frozenset[int] | None:
    alone = ["*"] * len(FIELDS)
    alone[FIELDS.index(name)] = text
    try:
        return _meant(check_cron(" ".join(alone), name))[name]
    except DefinitionError:
        return None


def _of_celery(name: str, text: str) -> frozenset[int] | None:
    try:
        return frozenset(crontab_parser(*_RANGES[name]).parse(text))
    except (ParseException, ValueError):
        return None


def _listed(values: frozenset[int]) -> str:
    return ",".join(map(str, sorted(values)))
