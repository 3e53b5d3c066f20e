"""Models of what is asked, bodies and queries; what a model does not name is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from celery_saga.core.status import RunStatus

__all__ = ["Cancel", "HistoryQuery", "NoQuery", "Reasoned", "ResolveUndo", "Retry", "RetryUndo", "RunQuery"]
__all__ += ["ForgetLane", "Pause", "Which"]
__all__ += ["DeskQuery", "FiresQuery", "Schedule", "SchedulesQuery"]
__all__ += ["EventsQuery", "KeyedSignal", "Redeem", "RunsQuery", "SagaQuery", "Signal", "Skip", "Start", "StepsQuery"]

_FIRST_YEAR, _LAST_YEAR = 1970, 9998  # whatever the zone, databases can store it
_CENTURY_S = 3_155_760_000
_NO_CONTROL = r"^[^\x00-\x1f\x7f-\x9f]*$"


def _instant(value: Any) -> Any:
    """ISO 8601 alone: a number would be taken for seconds since 1970."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text in ISO 8601 with a zone, like 2026-01-31T08:00:00Z")
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be in ISO 8601 with a zone, like 2026-01-31T08:00:00Z") from None
    if not _FIRST_YEAR <= found.year <= _LAST_YEAR:
        raise ValueError(f"must be in a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return found if found.tzinfo is None else found.astimezone(UTC)


def _digits(value: Any) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise ValueError("must be a whole number")
        return int(value)
    return value


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        if value not in {"true", "false"}:
            raise ValueError("must be true or false")
        return value == "true"
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            raise ValueError("must be a number of seconds, like 2.5")
        return float(value)
    return value


Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200, pattern=_NO_CONTROL)]
Key = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=255, pattern=_NO_CONTROL)]
StepKey = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=1000, pattern=_NO_CONTROL)]
Prose = Annotated[str, StringConstraints(strict=True, max_length=2000, pattern=r"^[^\x00]*$")]
Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]
Version = Annotated[int, Field(strict=True, ge=1, le=2_147_483_647)]
Truth = Annotated[bool, BeforeValidator(_truth)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


# -- bodies ----------------------------------------------------------------------------------------------------
class Start(_Asked):
    """What a run is started with."""

    args: list[Any] | dict[str, Any] | None = Field(None, description="By position, or an object by name.")
    key: Key | None = Field(None, description="Instead of the one that the saga makes of its arguments.")
    version: Version | None = Field(None, description="Of the saga; the highest unless given.")
    countdown: float | None = Field(
        None, strict=True, ge=0, le=_CENTURY_S, allow_inf_nan=False, description="Seconds before its first step."
    )
    eta: Instant | None = Field(None, description="Instant before which it takes no step; not with countdown.")
    deadline: float | None = Field(
        None, strict=True, gt=0, le=_CENTURY_S, allow_inf_nan=False, description="Seconds after which it fails."
    )
    priority: int | None = Field(None, strict=True, ge=0, le=2_097_151, description="Higher first.")
    lane: Name | None = Field(None, description="What it queues in.")
    tags: list[Name] | None = Field(None, max_length=100, description="To list runs by.")
    if_exists: Literal["return", "raise", "restart_failed"] | None = Field(
        None, description="What is done where the key is taken; return unless given."
    )


class Signal(_Asked):
    """A signal: its name, and a value or an error."""

    name: Name
    value: Any = Field(None, description="Of the type that the saga declares; null unless given.")
    id: Name | None = Field(None, description="A second one with the same name and id is refused.")
    error: Prose | None = Field(
        None, description="Instead of a value: text, or 'Class: text' of an error that the saga declares."
    )


class KeyedSignal(Signal):
    """A signal to the run of a saga and key, which need not exist yet."""

    key: Key


class Reasoned(_Asked):
    """Why it is done, for the history."""

    reason: Prose = ""


class Cancel(Reasoned):
    """How a run is cancelled."""

    compensate: bool = Field(True, strict=True, description="false: its undos are not executed.")


class Retry(Reasoned):
    """From where a run starts over."""

    from_step: StepKey | None = Field(None, description="Key of a step; the earliest of it and the failed one counts.")


class Skip(Reasoned):
    """A step to be taken for done."""

    step: StepKey
    result: Any = Field(None, description="What the body gets from it; null unless given.")


class RetryUndo(Reasoned):
    """A used-up undo to be executed again."""

    step: StepKey = Field(description="Key of the step that it undoes.")
    args: list[Any] | dict[str, Any] | None = Field(
        None, description="All its arguments, by position or by name; those that it had unless given."
    )


class ResolveUndo(Reasoned):
    """An undo to be closed by hand."""

    step: StepKey = Field(description="Key of the step that it undoes.")
    outcome: Literal["done", "skipped"] = Field(description="done: a person did it; skipped: it shall not be done.")


class Redeem(_Asked):
    """What a token is redeemed with."""

    value: Any = Field(None, description="Of the type that the saga declares; null unless given.")


class Which(_Asked):
    """One lane, or all runs of a saga; exactly one of the two."""

    saga: Name | None = Field(None, description="Name of a saga; '*': all sagas.")
    lane: Name | None = None


class Unpause(Which, Reasoned):
    """Whose pause is taken back, and why."""


class Pause(Which, Reasoned):
    """Whose runs are not to be active, and why."""


class ForgetLane(Reasoned):
    """Which lane is deleted, and why."""

    lane: Name


class Schedule(_Asked):
    """When the clock starts runs of a saga: exactly one of cron, every and at."""

    cron: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200, pattern=_NO_CONTROL)] | None = (
        Field(None, description="Five fields, like '30 2 * * mon-fri'.")
    )
    every: float | None = Field(
        None, strict=True, ge=0.1, le=_CENTURY_S, allow_inf_nan=False, description="Seconds, counted from now."
    )
    at: Instant | None = Field(None, description="Once, at this instant.")
    tz: Name | None = Field(None, description="The time zone of cron; the app's unless given.")
    args: list[Any] | dict[str, Any] | None = Field(None, description="Of each run, by position or by name.")
    version: Version | None = Field(None, description="Of the saga; the highest unless given.")
    overlap: Literal["skip", "allow"] = Field("skip", description="While a run of it is live.")
    catch_up: Literal["latest", "all"] = Field("latest", description="Of times that were missed.")


# -- queries ---------------------------------------------------------------------------------------------------
class NoQuery(_Asked):
    """A route whose query is empty."""


class RunsQuery(_Asked):
    """Which runs are listed; newest first."""

    saga: Name | None = None
    version: Annotated[int, Field(ge=1, le=2_147_483_647), BeforeValidator(_digits)] | None = None
    status: list[Literal[tuple(each.value for each in RunStatus)]] | None = Field(None, max_length=20)  # type: ignore[valid-type]
    key: Key | None = None
    lane: Name | None = None
    tag: Name | None = None
    since: Instant | None = Field(None, description="Created then or later.")
    until: Instant | None = Field(None, description="Created before then.")
    attention: Truth = Field(False, description="Only runs that wait for a person.")
    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_digits)] = 100
    after: Name | None = Field(None, description="`next` of the page before.")


class DeskQuery(_Asked):
    """Which runs of the desk are listed; the one that has waited longest first."""

    saga: Name | None = None
    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_digits)] = 100
    after: StepKey | None = Field(None, description="`next` of the page before.")


class RunQuery(_Asked):
    """How much of a run is shown."""

    all: Truth = Field(False, description="Steps of every generation, not only the present one.")
    traceback: Truth = Field(False, description="With the stored traceback of its error, where there is one.")


class StepsQuery(_Asked):
    """Which steps are listed."""

    all: Truth = Field(False, description="Of every generation, not only the present one.")


class HistoryQuery(_Asked):
    """Which rows of a history are listed."""

    after: Annotated[int, Field(ge=0, le=2_147_483_647), BeforeValidator(_digits)] = 0


class EventsQuery(HistoryQuery):
    """From where a history is followed, and how long an answer may wait for something new."""

    wait: Annotated[float, Field(ge=0, le=30), BeforeValidator(_number)] = Field(0, description="Seconds.")


class SchedulesQuery(_Asked):
    """Which schedules are listed."""

    saga: Name | None = None


class FiresQuery(_Asked):
    """How many nominal times are told."""

    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_digits)] = 100


class SagaQuery(_Asked):
    """Which version of a saga."""

    version: Annotated[int, Field(ge=1, le=2_147_483_647), BeforeValidator(_digits)] | None = None
