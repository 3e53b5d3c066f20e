"""Words of the command line that are more than text: JSON values, `name=json`, instants."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from celery_saga.core.strict_json import AmbiguousJson, read_json

__all__ = ["AGE", "INSTANT", "JSON", "NAMED_JSON", "REASONS", "RUN", "SECONDS"]

REASONS = (
    "body_error",
    "deadline",
    "input",
    "non_determinism",
    "on_failure",
    "operator",
    "pivot",
    "stalled",
    "undo_failed",
    "undo_unknown",
    "unreadable",
)
"""Why a run may be parked; docs/operations.md tells what to do about each."""
RUN = "RUN"
"""How help calls a run: its id, or `SAGA:KEY`."""


class _Json(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; a word that is no JSON is refused, so that a typo does not become a text."""
        if not isinstance(value, str):
            return value
        try:
            return read_json(value)
        except AmbiguousJson as error:
            hint = f"; write text in quotes: '\"{value}\"'" if value.isidentifier() else ""
            self.fail(f"{value!r} {error}{hint}", param, ctx)


class _NamedJson(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    name = "name=json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Name and value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name.isidentifier():
            self.fail(f"{value!r} is not of the form name=json, like --arg 'order={{\"id\": 1}}'", param, ctx)
        return name, JSON.convert(text, param, ctx)


class _Instant(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """ISO 8601; UTC where no zone is given."""
        if isinstance(value, datetime):
            return value
        try:
            instant = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no instant; write ISO 8601, like 2026-01-31T08:00:00+00:00", param, ctx)
        instant = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
        try:
            instant.astimezone(UTC)
        except OverflowError:
            self.fail(f"{value!r} is in UTC before the year 1 or after the year 9999", param, ctx)
        return instant


class _Seconds(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A number of seconds, from 0; never NaN or infinite, which compare with nothing."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= _CENTURY_S:
            self.fail(f"{value!r} is no number of seconds from 0 to {_CENTURY_S}, like 2.5", param, ctx)
        return seconds


class _Age(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A duration like `30d`, or an instant; a bare number has no unit, and might mean seconds or days."""
        if not isinstance(value, str):
            return value
        matched = _AGE.fullmatch(value)
        try:
            if matched is not None:
                return timedelta(**{_UNITS[matched[2]]: float(matched[1])})
        except OverflowError:
            self.fail(f"{value!r} is longer than there are years", param, ctx)
        if _NUMBER.fullmatch(value):
            self.fail(f"{value!r} is no age with a unit (s, m, h, d or w); write one like 30d or 12h", param, ctx)
        try:
            instant: datetime = INSTANT.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is no age; write one like 30d or 12h, or an instant like 2026-01-31", param, ctx)
        return instant


_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_NUMBER = re.compile(r"[+-]?\d*\.?\d*")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_CENTURY_S = 100 * 365 * 24 * 3600
JSON = _Json()
NAMED_JSON = _NamedJson()
INSTANT = _Instant()
SECONDS = _Seconds()
AGE = _Age()
