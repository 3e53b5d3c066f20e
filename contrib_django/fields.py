"""Columns of the saga tables as Django reads them: instants in UTC, and keys of several columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any

from django.db import models
from django.db.models import Func
from django.utils.dateparse import parse_datetime
from django.utils.timezone import get_current_timezone, is_naive, make_aware

__all__ = ["HAS_JOINT_KEYS", "LAST_OF_KEY", "InstantField", "joint_key"]

HAS_JOINT_KEYS = hasattr(models, "CompositePrimaryKey")
"""Django 5.2 and later. Before it the last column of a key is said to be the whole."""

LAST_OF_KEY: dict[str, Any] = {} if HAS_JOINT_KEYS else {"primary_key": True, "serialize": False}

_SQLITE_FORMAT = "%Y-%m-%dT%H:%M:%S.%f"


def joint_key(*columns: str) -> list[tuple[str, Any]]:
    """The primary key of several columns, as the first field of a `CreateModel`; nothing before Django 5.2."""
    if not HAS_JOINT_KEYS:
        return []
    words = {"blank": True, "editable": False, "primary_key": True, "serialize": False}  # as Django writes it
    return [("pk", models.CompositePrimaryKey(*columns, **words))]


class _Spaced(Func):
    """An instant as Django's functions for dates read it on SQLite, where the tables have a `T` in the middle."""

    def as_sql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """As it is."""
        return compiler.compile(self.source_expressions[0])

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """With a space."""
        return super().as_sql(compiler, connection, template="replace(%(expressions)s, 'T', ' ')", **extra)


class InstantField(models.DateTimeField):
    """An aware instant in UTC with microseconds, whatever `USE_TZ` and the time zones of the project say.

    What it is compared with may be naive: then it is meant in the current time zone.
    """

    def get_internal_type(self) -> str:
        """None of Django's, whose backends would read the text in a time zone of their own."""
        return "InstantField"

    def db_type(self, connection: Any) -> str:
        """The type of the column, as the saga tables have it."""
        return {"postgresql": "timestamp with time zone", "mysql": "datetime(6)"}.get(connection.vendor, "varchar(26)")

    def get_prep_value(self, value: Any) -> Any:
        """Aware."""
        value = models.Field.get_prep_value(self, value)
        if isinstance(value, str):
            value = self.to_python(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time.min)
        if isinstance(value, datetime) and is_naive(value):
            value = make_aware(value, get_current_timezone())
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """As the saga tables have it."""
        value = value if prepared else self.get_prep_value(value)
        if not isinstance(value, datetime) or connection.vendor == "postgresql":
            return value
        naive = value.astimezone(UTC).replace(tzinfo=None)
        return naive if connection.vendor == "mysql" else naive.strftime(_SQLITE_FORMAT)

    def select_format(self, compiler: Any, sql: str, params: Any) -> Any:
        """On PostgreSQL in UTC: Django cuts the zone off what it reads where `USE_TZ` is off."""
        if compiler.connection.vendor != "postgresql" or compiler.query.subquery:
            return sql, params
        return f"timezone('UTC', {sql})", params

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> datetime | None:
        """Aware and in UTC."""
        if isinstance(value, str):
            value = parse_datetime(value)
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)  # type: ignore[no-any-return]

    def get_transform(self, lookup_name: str) -> Any:
        """Parts of the instant (`__date`, `__year`), also on SQLite."""
        transform: Callable[..., Any] | None = super().get_transform(lookup_name)
        if transform is None:
            return None
        return lambda lhs: transform(_Spaced(lhs, output_field=models.DateTimeField()))
