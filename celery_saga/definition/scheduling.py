"""A saga that is started by the clock: what a schedule may say, checked and encoded where it is said."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from celery_saga.client import binding, purity
from celery_saga.client.schedules import ScheduleHandle
from celery_saga.core import schedules as core
from celery_saga.core.asked import shown, utc
from celery_saga.core.retry import seconds
from celery_saga.core.schedules import PatternKind, ScheduleRecord, Wanted
from celery_saga.definition.names import check_name
from celery_saga.definition.options import StartOptions
from celery_saga.definition.payload import Payload
from celery_saga.engine.nominal import check_cron, check_zone
from celery_saga.engine.schedules import ScheduleBook
from celery_saga.engine.start import NewRun
from celery_saga.errors import DefinitionError, InvalidPayload

if TYPE_CHECKING:
    from celery_saga.definition.saga import Saga

__all__ = ["Schedulable", "run_of", "wanted"]

SHORTEST_S = 0.1
_LONGEST_CRON = 200


class Schedulable:
    """The verb of a saga that the clock starts."""

    def schedule(
        self,
        id: str,  # noqa: A002 - its name in the contract
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        at: datetime | None = None,
        args: tuple[Any, ...] | list[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        tz: str | None = None,
        overlap: Literal["skip", "allow"] = "skip",
        catch_up: Literal["latest", "all"] = "latest",
    ) -> ScheduleHandle:
        """Let the clock start runs: write the schedule of this name, or change the one that is there.

        Said again in the same words, it changes nothing. Another pattern counts from now; what was fired stays known.

        Args:
            id: the schedule's name among those of this saga, 1 to 120 characters.
            cron: five fields, as Debian's cron reads them.
            every: seconds or a timedelta, at least 0.1 s, counted from now.
            at: once, at this aware instant.
            args, kwargs: of each run.
            tz: the time zone of `cron`; the Celery app's unless given.
            overlap: while a run of the schedule is live: skip the next, or start it all the same.
            catch_up: of times that were missed: start one run, of the latest, or one of each.
        Raises:
            DefinitionError: not exactly one of cron, every and at, one that cannot be read or never comes, an unknown
                zone or word, a datetime without zone, options of `Saga.options`, or called in a body.
            InvalidPayload: the arguments do not fit the saga, or cannot be stored.
            StoreUnavailable, SchemaOutdated: the database cannot be used. In every case nothing was written.
        """
        saga = cast("Saga[Any, Any]", self)
        purity.forbid(f"{saga.name}.schedule()", "a step whose task does it")
        engine = binding.current(saga).engine
        said = {"cron": cron, "every": every, "at": at, "args": args, "kwargs": kwargs, "tz": tz}
        said |= {"overlap": overlap, "catch_up": catch_up}
        limit_bytes = engine.limits.max_payload_bytes
        record, _ = engine.schedules.put(wanted(saga, id, said, engine.schedules, limit_bytes=limit_bytes))
        return ScheduleHandle(engine.schedules, record.saga, record.id)


def wanted(
    saga: Saga[Any, Any],
    id_: object,
    said: Mapping[str, Any],
    book: ScheduleBook,
    *,
    limit_bytes: int | None = None,
    source: str = "code",
) -> Wanted:
    """What was said of a schedule, checked and encoded; nothing is written.

    Args:
        said: the arguments of `Saga.schedule` by name; those that are missing are not given.
        source: who says it: code, settings, cli or beat.
    Raises:
        DefinitionError, InvalidPayload: as of `Saga.schedule`; nothing was written.
    """
    name = check_schedule_id(id_, saga.name)
    where = f"schedule {name!r} of saga {saga.name!r}:"
    unknown = sorted(set(said) - {"cron", "every", "at", "args", "kwargs", "tz", "overlap", "catch_up"})
    if unknown:
        raise DefinitionError(f"{where} {unknown[0]!r} is no word of a schedule; nothing was written.")
    if saga.start_options != StartOptions():
        raise DefinitionError(
            f"{where} its runs have the options of the saga, not those of options(); nothing was written. Write "
            f"{saga.name}.schedule(...)."
        )
    kind, pattern, tz = _pattern(said, where, book.zone)
    args, kwargs = _arguments(said, where)
    text, digest = saga.payload.encode(saga.payload.bind(args, kwargs), limit_bytes)
    return Wanted(
        saga=saga.name,
        id=name,
        version=saga.version,
        kind=kind,
        pattern=pattern,
        tz=tz,
        input_text=text,
        input_digest=digest,
        overlap=_word(said.get("overlap"), f"{where} overlap=", ("skip", "allow")),
        catch_up=_word(said.get("catch_up"), f"{where} catch_up=", ("latest", "all")),
        source=source,
        owner=book.owner if source == "settings" else "",
        driver=book.driver,
    )


def check_schedule_id(id_: object, saga: str) -> str:
    """The name of a schedule: text of 1 to 120 characters, so that the keys of its runs fit.

    Raises:
        DefinitionError: it is none; nothing was written.
    """
    name = check_name(id_, f"saga {saga!r}, the id of a schedule")
    if len(name) > 120:
        raise DefinitionError(
            f"saga {saga!r}: the id of a schedule has at most 120 characters, got {len(name)}; nothing was written."
        )
    return name


def run_of(saga: Saga[Any, Any], schedule: ScheduleRecord, at: datetime, limit_bytes: int) -> NewRun:
    """The run of one nominal time; nothing is written.

    Its arguments are taken as they were stored: who fires is the loop that wakes everything, which is not to wait for a
    validator of the user's. Where they fit this version no more, the run is parked when a worker reads them.
    """
    # Whatever key the saga makes of its arguments: those are the same every time.
    keyed: Any = copy.copy(saga.options(key=core.run_key(schedule.id, at)))
    keyed.payload = _Encoded(saga.payload, schedule)
    new: NewRun = keyed.new_run((), {}, limit_bytes=limit_bytes)
    return replace(new, scheduled_for=at)


class _Encoded:
    """Stands for a payload where the arguments are encoded already."""

    def __init__(self, payload: Payload, schedule: ScheduleRecord) -> None:
        self._payload = payload
        self._encoded = schedule.input_text, schedule.input_digest

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
        """Nothing."""
        return {}

    def encode(self, bound: Mapping[str, object], limit_bytes: int | None = None) -> tuple[str, str]:
        """What is stored."""
        return self._encoded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._payload, name)


def _pattern(said: Mapping[str, Any], where: str, zone: str) -> tuple[PatternKind, str, str]:
    given = [kind for kind in PatternKind if said.get(kind.value) is not None]
    if len(given) != 1:
        got = " and ".join(f"{kind.value}=" for kind in given) or "none"
        raise DefinitionError(f"{where} takes one of cron=, every= and at=, got {got}; nothing was written.")
    (kind,), tz = given, said.get("tz")
    value = said[kind.value]
    if kind is PatternKind.CRON:
        expression = check_cron(value, f"{where} cron=")
        if len(expression) > _LONGEST_CRON:
            raise DefinitionError(f"{where} cron= has more than {_LONGEST_CRON} characters; nothing was written.")
        return kind, expression, check_zone(zone if tz is None else tz, f"{where} tz=").key
    if tz is not None:
        raise DefinitionError(
            f"{where} tz= is the zone of cron=, and means nothing for {kind.value}=; nothing was written."
        )
    if kind is PatternKind.AT:
        try:
            return kind, utc(value).isoformat(), "UTC"
        except ValueError as error:
            raise DefinitionError(
                f"{where} at= takes an aware datetime, and it {error}, got {shown(value)}; nothing was written. "
                "Give it a zone: datetime(..., tzinfo=ZoneInfo('Europe/Paris'))."
            ) from None
    every_s = seconds(value, f"{where} every=", minimum_s=SHORTEST_S, left="nothing was written.")
    return kind, repr(every_s), "UTC"


def _arguments(said: Mapping[str, Any], where: str) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    args, kwargs = said.get("args"), said.get("kwargs")
    for name, value, takes in (("args", args, (list, tuple)), ("kwargs", kwargs, Mapping)):
        if value is not None and not isinstance(value, takes):
            kind = "a list" if name == "args" else "a mapping"
            raise InvalidPayload(f"{where} {name}= takes {kind}, got {shown(value)}; nothing was written.", path=name)
    return tuple(args or ()), kwargs or {}


def _word(word: object, what: str, allowed: tuple[str, ...]) -> str:
    if word is None:
        return allowed[0]
    if not isinstance(word, str) or word not in allowed:
        raise DefinitionError(
            f"{what} must be one of {', '.join(map(repr, allowed))}, got {shown(word)}; nothing was written."
        )
    return word
