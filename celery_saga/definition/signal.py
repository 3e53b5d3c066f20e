"""A message that a run can wait for: its name and the type of its value."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, overload

from celery_saga.definition.names import check_name
from celery_saga.definition.payload import check_type, decode_as, validate_as
from celery_saga.errors import DefinitionError, SignalNotExpected

__all__ = ["Signal", "check_sent"]

T = TypeVar("T")


class Signal(Generic[T]):
    """A signal that bodies wait for and senders send, with a typed value.

    Args:
        name: 1 to 200 characters, the first no `!`; what senders without this object write.
        type: of the value: a dataclass, pydantic model, Enum, plain type or container of these; None: anything that
            can be stored.
    Raises:
        DefinitionError: a bad name, or a type that no stored value can become.
    """

    __slots__ = ("_name", "_type")

    @overload
    def __init__(self: Signal[Any], name: str, type: None = None) -> None: ...
    @overload
    def __init__(self, name: str, type: builtins.type[T]) -> None: ...

    def __init__(self, name: str, type: Any = None) -> None:
        self._name = check_name(name, "Signal(name)")
        if name.startswith("!"):
            raise DefinitionError(f"Signal({name!r}): names that begin with '!' are reserved; nothing was registered.")
        check_type(type, f"signal {name!r}")
        self._type = type

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def type(self) -> Any:
        """The type of its value; None for any."""
        return self._type

    def __repr__(self) -> str:
        return f"Signal({self._name!r})" if self._type is None else f"Signal({self._name!r}, {self._type!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signal) and (self._name, self._type) == (other._name, other._type)

    def __hash__(self) -> int:
        return hash(self._name)

    def check(self, value: object) -> None:
        """Refuse a value that is not of the type.

        Raises:
            InvalidPayload: naming the path; nothing was sent.
        """
        validate_as(self._type, value, f"signal {self._name!r}")

    def read(self, value: object) -> Any:
        """A decoded value as an instance of the type.

        Raises:
            InvalidPayload: it does not fit; it was left as it is.
        """
        return decode_as(self._type, value)


def check_sent(
    declared: Mapping[str, Signal[Any]], saga: str, name: str, value: object, *, has_error: bool = False
) -> None:
    """Refuse what no body of a saga could take; parameters and errors as of `Saga.check_signal`.

    Args:
        declared: the signals of the saga, by name; empty: any will do.
    """
    signal = declared.get(name)
    if signal is not None:
        if not has_error:
            signal.check(value)
    elif declared:
        raise SignalNotExpected(
            f"saga {saga!r} does not declare the signal {name!r}; nothing was sent. It declares {', '.join(declared)}.",
            signal=name,
        )
    else:
        validate_as(None, value, f"signal {name!r}")
