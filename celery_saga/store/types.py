"""Column types that mean the same on every database: instants, names compared byte for byte, texts of any length."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, String, Text, dialects
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from celery_saga.core.unreadable import InClear, Unreadable
from celery_saga.errors import InvalidPayload
from celery_saga.store.vault import CLEAR, Vault

MYSQL_FAMILY = frozenset({"mysql", "mariadb"})
_SQLITE_FORMAT = "%Y-%m-%dT%H:%M:%S.%f"


def _mysql() -> Any:
    """Its types, where a dialect of the family is there and has loaded them: no other database needs them."""
    return dialects.mysql  # type: ignore[attr-defined]


def byte_collation(dialect: Dialect) -> str | None:
    """The collation under which `a`, `A`, `á` and `a ` are four names; None where that is the default.

    `utf8mb4_bin` is not enough on the MySQL family: it pads, so that a trailing space does not count.
    """
    if dialect.name in MYSQL_FAMILY:
        return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"
    return "C" if dialect.name == "postgresql" else None


class _InUtc(FunctionElement[datetime]):
    name = "in_utc"
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], *, type_: TypeEngine[datetime]) -> None:
        super().__init__(column)
        self.type = type_


@compiles(_InUtc)
def _as_it_is(element: Any, compiler: Any, **kw: Any) -> str:
    text: str = compiler.process(element.clauses, **kw)
    return text


@compiles(_InUtc, "postgresql")
def _at_time_zone_utc(element: Any, compiler: Any, **kw: Any) -> str:
    return f"timezone('UTC', {compiler.process(element.clauses, **kw)})"


class Instant(TypeDecorator[datetime]):
    """An aware UTC instant with microseconds: TIMESTAMPTZ, DATETIME(6) in UTC, or text that sorts (SQLite).

    Raises:
        InvalidPayload: no datetime, or one without zone; nothing was written.
    """

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column type of this database."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        if dialect.name in MYSQL_FAMILY:
            return dialect.type_descriptor(_mysql().DATETIME(fsp=6))
        return dialect.type_descriptor(String(26))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuses naive datetimes: they would be read in the server's zone."""
        if value is None:
            return None
        if not isinstance(value, datetime) or value.utcoffset() is None:
            raise InvalidPayload(f"an instant is an aware datetime, got {value!r}; nothing was written")
        if dialect.name == "postgresql":
            return value
        naive = value.astimezone(UTC).replace(tzinfo=None)
        return naive if dialect.name in MYSQL_FAMILY else naive.strftime(_SQLITE_FORMAT)

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """PostgreSQL answers in UTC whatever the zone of the session is and whatever a caller taught the driver."""
        return _InUtc(column, type_=self)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Always in UTC."""
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)  # type: ignore[no-any-return]
        return value.astimezone(UTC)  # type: ignore[no-any-return]


class Name(TypeDecorator[str]):
    """A bounded name or key, compared byte for byte.

    Raises:
        InvalidPayload: longer than the column, or not storable on every database; nothing was written.
    """

    impl = String
    cache_ok = True

    def __init__(self, length: int = 255) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """VARCHAR with the byte collation of this database."""
        collation = byte_collation(dialect)
        if dialect.name in MYSQL_FAMILY:
            return dialect.type_descriptor(_mysql().VARCHAR(self.length, charset="utf8mb4", collation=collation))
        return dialect.type_descriptor(String(self.length, collation=collation))

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:
        """Lets through at once what most names are."""
        check, longest = self.process_bind_param, self.length

        def process(value: str | None) -> str | None:
            if type(value) is str and len(value) <= longest and value.isascii() and "\0" not in value:
                return value
            return check(value, dialect)

        return process

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Checks here what SQLite would let through and MySQL might cut."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise InvalidPayload(f"a name is text, got {value!r}; nothing was written")
        if len(value) > self.length:
            raise InvalidPayload(
                f"the name {value[:40]!r}... has {len(value)} characters; at most {self.length} are allowed, "
                "nothing was written"
            )
        if "\0" in value or not _is_encodable(value):
            raise InvalidPayload(f"the name {value!r} holds a NUL or a lone surrogate; nothing was written")
        return value


class Plain(TypeDecorator[str]):
    """A text for people of any length: what no database can store is replaced, so that an error is never lost to it."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """See `_text`."""
        return _text(dialect)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """NUL and lone surrogates become U+FFFD."""
        return None if value is None else _storable(value)


class Document(TypeDecorator[str]):
    """A JSON document of ours that holds nothing of a user's values: names, policies, tags. It is stored in clear.

    As text, never jsonb: that rejects escaped NULs and lone surrogates and rewrites numbers.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """See `_text`."""
        return _text(dialect)


class Payload(TypeDecorator[str]):
    """A text that holds, or may hold, values of a user's: at rest it is as the vault makes it.

    No statement may compare it or look into it.

    Args:
        vault: of the store; None: texts are stored as they are.
        is_large: it may be put elsewhere.
    """

    impl = Text
    cache_ok = True

    def __init__(self, vault: Vault | None = None, is_large: bool = False) -> None:
        super().__init__()
        self.vault = vault or Vault()
        self.is_large = is_large

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """See `_text`."""
        return _text(dialect)

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:
        """Closes texts, but those in which there is nothing to be seen."""
        closed, is_large = self.vault.closed, self.is_large

        def process(value: str | None) -> str | None:
            return value if value is None or value in EMPTY else closed(value, is_large=is_large)

        return process

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[str | None], str | None]:
        """Opens texts that are marked as closed."""
        opened = self.vault.opened

        def process(value: str | None) -> str | None:
            return opened(value) if value is not None and value[:1] == "!" else value

        return process


class Note(Payload):
    """A text for people, as `Plain`, that may quote values of a user's: at rest as the vault makes it."""

    cache_ok = True

    def __init__(self, vault: Vault | None = None) -> None:
        super().__init__(vault)

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:
        """As `Plain`, then closed; one that begins like a closed text is marked as none."""
        closed = self.vault.closed

        def process(value: str | None) -> str | None:
            if value is None or isinstance(value, (InClear, Unreadable)):
                return value if value is None else closed(value, is_large=False)
            text = closed(_storable(value), is_large=False)
            return CLEAR + text if text[:1] == "!" and self.vault.codec is None else text

        return process


EMPTY = frozenset({"", "{}", "[]", "[[], {}]"})
"""Texts that say that there is nothing; they stay as they are."""


def _text(dialect: Dialect) -> TypeEngine[Any]:
    """TEXT; on the MySQL family LONGTEXT, as TEXT ends at 64 kB there."""
    if dialect.name in MYSQL_FAMILY:
        return dialect.type_descriptor(_mysql().LONGTEXT(charset="utf8mb4", collation=byte_collation(dialect)))
    return dialect.type_descriptor(Text())


def _storable(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", "�")
    return text if _is_encodable(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_encodable(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
