"""How values become trees that JSON can write, and which values are refused."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from types import GeneratorType
from typing import Any, NoReturn, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from celery_saga.errors import InvalidPayload

MAX_DEPTH = 100
"""How deep a value may be nested; far from Python's own limit, also in a worker's stack."""
BIG_INT_BITS = 1024
"""Longer ints are written in hex: Python refuses to write long ones in decimal."""

Tree: TypeAlias = Any
"""None, bool, int, float, str, list and dict with str keys: what json writes."""

# Written as text, but only inside dataclasses and models, whose fields say what to make of it.
_TEXTUAL = (PurePath, IPv4Address, IPv6Address, IPv4Network, IPv6Network)

canonical = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    separators=(",", ":"),
    sort_keys=True,
).encode


class TooManyValues(Exception):
    """There are more values than the limit has bytes, so the text would be longer than it."""

    def __init__(self, count: int, limit: int) -> None:
        super().__init__(count, limit)
        self.count = count
        self.limit = limit


class Writer:
    """One walk over one value.

    Args:
        what: how errors call the value.
        limit: at most so many values are looked at; None for no limit.
    """

    def __init__(self, what: str, limit: int | None) -> None:
        self._what = what
        self._limit = limit
        self._count = 0
        self._path: list[str] = []
        self._open: set[int] = set()
        self._in_set = 0
        self._in_fields = 0

    def write(self, value: object) -> Tree:
        """The tree for a value.

        Raises:
            InvalidPayload: naming the path and what to do.
            TooManyValues: see there.
        """
        write = _WRITERS.get(type(value)) or _writer_for(value)
        return write(self, value)

    # Errors and places

    def _refuse(self, problem: str, advice: str, *, at: str = "") -> NoReturn:
        """Raise for the value being looked at."""
        path = self._place + at
        raise InvalidPayload(f"{path or 'value'}: {problem}; nothing was written. {advice}", path=path)

    @property
    def _place(self) -> str:
        parts = self._path
        if len(parts) > 20:
            parts = [*parts[:10], "...", *parts[-5:]]
        path = self._what + "".join(parts)
        return path if self._what else path.removeprefix(".")

    @contextmanager
    def _inside(self, container: object, size: int) -> Iterator[None]:
        self._count += size
        if self._limit is not None and self._count > self._limit:
            raise TooManyValues(self._count, self._limit)
        identity = id(container)
        if identity in self._open:
            self._refuse("contains itself", "Pass ids instead of references back.")
        if len(self._open) >= MAX_DEPTH:
            self._refuse(f"is nested more than {MAX_DEPTH} deep", "Pass a flatter value.")
        self._open.add(identity)
        try:
            yield
        finally:
            self._open.discard(identity)

    def _member(self, part: str, value: object) -> Tree:
        self._path.append(part)
        tree = self.write(value)
        # Not in a `finally`: after an error the path is still wanted.
        self._path.pop()
        return tree

    def _needs_no_hash(self, value: object) -> None:
        if self._in_set:
            self._refuse(
                f"{_a(type(value))} in a set could not be put back into one",
                "Pass a list.",
            )

    # Plain values

    def _constant(self, value: object) -> Tree:
        return value

    def _text(self, value: str) -> Tree:
        plain = str.__str__(value)
        if not plain.isascii():
            self._check_text(plain, "")
        return plain

    def _check_text(self, plain: str, at: str) -> None:
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            self._refuse(
                f"has the lone surrogate {plain[error.start]!a} at index {error.start}, which is no character",
                "Decode the text rightly, or pass bytes.",
                at=at,
            )

    def _int(self, value: int) -> Tree:
        plain = int.__int__(value)
        return {"$int": hex(plain)} if plain.bit_length() > BIG_INT_BITS else plain

    def _float(self, value: float) -> Tree:
        plain = float.__float__(value)
        if not math.isfinite(plain):
            self._refuse(f"{plain!r} is not a number that can be stored", "Pass None or a str.")
        return plain

    # Containers

    def _list(self, value: list[object]) -> Tree:
        self._needs_no_hash(value)
        return self._items(value)

    def _tuple(self, value: tuple[object, ...]) -> Tree:
        return {"$tuple": self._items(value)}

    def _items(self, value: list[object] | tuple[object, ...]) -> list[Tree]:
        with self._inside(value, len(value)):
            return [self._member(f"[{index}]", item) for index, item in enumerate(value)]

    def _set(self, value: set[object]) -> Tree:
        self._needs_no_hash(value)
        return {"$set": self._elements(value)}

    def _frozenset(self, value: frozenset[object]) -> Tree:
        return {"$frozenset": self._elements(value)}

    def _elements(self, value: set[object] | frozenset[object]) -> list[Tree]:
        with self._inside(value, len(value)):
            self._in_set += 1
            trees = {canonical(tree): tree for tree in (self._member("{}", e) for e in value)}
            self._in_set -= 1
        if len(trees) < len(value):
            self._refuse("has elements that are stored alike", "Pass a list.")
        # A set has another order in each process; its text must not.
        return [trees[text] for text in sorted(trees)]

    def _dict(self, value: dict[object, object]) -> Tree:
        self._needs_no_hash(value)
        tree: dict[str, Tree] = {}
        with self._inside(value, len(value)):
            for key, item in value.items():
                name = self._key(key)
                tree[f"${name}" if name[:1] == "$" else name] = self._member(_part(name), item)
        return tree

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            self._refuse(
                f"the key {_short(key)} is of type {_name(type(key))}, and keys must be str",
                "Pass str keys, or a list of pairs.",
            )
        name = str.__str__(key)
        if name == "__type__":
            self._refuse(
                "a key '__type__' is read as a type marker by Celery's serializer",
                "Rename the key.",
                at=_part(name),
            )
        if not name.isascii():
            self._check_text(name, f"[{name!a}]")
        return name

    # Values with a tag

    def _bytes(self, value: bytes) -> Tree:
        return {"$bytes": base64.b64encode(value).decode("ascii")}

    def _decimal(self, value: Decimal) -> Tree:
        if not value.is_finite():
            self._refuse(f"{value!r} is not a number that can be stored", "Pass None or a str.")
        return {"$decimal": Decimal.__str__(value)}

    def _uuid(self, value: UUID) -> Tree:
        return {"$uuid": UUID.__str__(value)}

    def _date(self, value: date) -> Tree:
        return {"$date": date.isoformat(value)}

    def _datetime(self, value: datetime) -> Tree:
        return {"$datetime": datetime.isoformat(value) + self._suffix(value)}

    def _time(self, value: time) -> Tree:
        return {"$time": time.isoformat(value) + self._suffix(value)}

    def _suffix(self, value: datetime | time) -> str:
        zone = value.tzinfo
        fold = "[fold=1]" if value.fold else ""
        if zone is None or isinstance(zone, timezone):
            return fold
        if isinstance(zone, ZoneInfo) and zone.key:
            return f"[{zone.key}]{fold}"
        return self._refuse(
            f"its time zone is {_a(type(zone))}, which cannot be stored",
            "Use zoneinfo.ZoneInfo(name) or datetime.timezone.",
        )

    def _timedelta(self, value: timedelta) -> Tree:
        return {"$timedelta": [value.days, value.seconds, value.microseconds]}

    # Values that only an annotation brings back

    def _enum(self, value: Enum) -> Tree:
        return self.write(value.value)

    def _dataclass(self, value: Any) -> Tree:
        # The others are made again by the constructor, which does not take them.
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return self._fields(value, ((name, name, getattr(value, name)) for name in fields))

    def _model(self, value: Any) -> Tree:
        fields: Mapping[str, Any] = type(value).model_fields
        if hasattr(type(value), "__pydantic_root_model__") and type(value).__pydantic_root_model__:
            self._in_fields += 1
            with self._inside(value, 1):
                tree = self.write(value.root)
            self._in_fields -= 1
            return tree
        members = [(n, _input_name(n, field), getattr(value, n)) for n, field in fields.items()]
        extra = getattr(value, "__pydantic_extra__", None) or {}
        return self._fields(value, members + [(name, name, extra[name]) for name in extra])

    def _fields(self, value: object, members: Iterable[tuple[str, str, object]]) -> Tree:
        self._needs_no_hash(value)
        tree: dict[str, Tree] = {}
        self._in_fields += 1
        with self._inside(value, 1):
            for attribute, key, item in members:
                written = self._member(_part(attribute), item)
                tree[f"${key}" if key[:1] == "$" else key] = written
        self._in_fields -= 1
        return tree

    def _other(self, value: object) -> Tree:
        """Anything else: text of a field's value, or refused with what to do instead."""
        kind = type(value)
        is_url = kind.__module__.startswith("pydantic") and hasattr(kind, "unicode_string")
        if self._in_fields and (is_url or isinstance(value, _TEXTUAL)):
            return self._text(str(value))
        return self._refuse(f"{_a(kind)} cannot be stored", _advice(value, self._place or "value"))


_WRITERS: dict[type, Callable[[Writer, Any], Tree]] = {
    type(None): Writer._constant,
    bool: Writer._constant,
    str: Writer._text,
    int: Writer._int,
    float: Writer._float,
    list: Writer._list,
    dict: Writer._dict,
    tuple: Writer._tuple,
    set: Writer._set,
    frozenset: Writer._frozenset,
    bytes: Writer._bytes,
    Decimal: Writer._decimal,
    UUID: Writer._uuid,
    datetime: Writer._datetime,  # before date, its base
    date: Writer._date,
    time: Writer._time,
    timedelta: Writer._timedelta,
}


def _writer_for(value: object) -> Callable[[Writer, Any], Tree]:
    if isinstance(value, Enum):  # first, because many are also int or str
        return Writer._enum
    for base, write in _WRITERS.items():
        if isinstance(value, base):
            return write
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return Writer._dataclass
    if hasattr(kind, "model_fields") and hasattr(kind, "model_dump"):
        return Writer._model
    return Writer._other


def _input_name(name: str, field: Any) -> str:
    """The key under which a pydantic model takes a field."""
    alias = field.validation_alias or field.alias
    choices = getattr(alias, "choices", None)
    if choices:
        alias = choices[0]
    return alias if isinstance(alias, str) else name


def _advice(value: object, place: str) -> str:
    kind = type(value)
    if hasattr(kind, "_meta") and hasattr(value, "pk"):
        return f"Pass {place}.pk and load the object in the step."
    if hasattr(kind, "__mapper__"):
        return "Pass its primary key and load the object in the step."
    if isinstance(value, GeneratorType | Iterator):
        return f"Pass list({place})."
    if callable(getattr(kind, "get_secret_value", None)):
        return "Pass a reference to the secret and read it in the step."
    if isinstance(value, bytearray | memoryview):
        return f"Pass bytes({place})."
    if callable(getattr(kind, "tolist", None)):
        return f"Pass {place}.tolist()."
    if isinstance(value, Mapping):
        return f"Pass dict({place})."
    if isinstance(value, Iterable):
        return f"Pass list({place})."
    return "Pass plain values, a dataclass, a pydantic model, or an id to load it by."


def _part(name: str) -> str:
    return f".{name}" if len(name) <= 80 and name.isidentifier() else f"[{_short(name)}]"


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _a(kind: type) -> str:
    name = _name(kind)
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _name(kind: type) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
