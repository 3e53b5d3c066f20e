"""What the joins of a body give: results in declared order, decoded when they are first looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, SupportsIndex, TypeVar, overload

__all__ = ["Collected", "Outcome", "Results", "Winner"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Winner(Generic[T]):
    """The arm of a race that came in first, and what it gave."""

    name: str
    value: T


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """How one part of a join with `on_failure="collect"` ended.

    Args:
        name: its name, or its number as text.
        output: what it returned; None where it failed.
        error: what it raised; None where it succeeded.
    """

    name: str
    output: T | None = None
    error: BaseException | None = None

    @property
    def ok(self) -> bool:
        """It succeeded."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Collected(Generic[T]):
    """How the parts of a join with `on_failure="collect"` ended, in declared order."""

    results: tuple[Outcome[T], ...]

    @property
    def succeeded(self) -> int:
        """How many parts succeeded."""
        return sum(1 for each in self.results if each.ok)

    @property
    def failed(self) -> int:
        """How many parts failed."""
        return len(self.results) - self.succeeded

    @property
    def outputs(self) -> list[T | None]:
        """What the parts that succeeded returned, in declared order."""
        return [each.output for each in self.results if each.ok]


class Results(list[T]):
    """A list that is made when it is first looked at: the steps after a map of ten thousand need not decode it.

    Args:
        length: how many there are.
        make: gives all of them.
    """

    def __init__(self, length: int, make: Callable[[], list[T]]) -> None:
        super().__init__()
        self._length = length
        self._make: Callable[[], list[T]] | None = make

    def _filled(self) -> Results[T]:
        if self._make is not None:
            make, self._make = self._make, None
            super().extend(make())
        return self

    def __len__(self) -> int:
        return self._length if self._make is not None else super().__len__()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[T]:
        self._filled()
        return super().__iter__()

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[T]: ...
    def __getitem__(self, index: Any, /) -> Any:
        self._filled()
        return super().__getitem__(index)

    def __reduce__(self) -> Any:
        return (list, (list(self),))


def _looking(name: str) -> Any:
    plain = getattr(list, name)

    def method(self: Results[Any], *args: Any, **kwargs: Any) -> Any:
        self._filled()
        return plain(self, *(x._filled() if isinstance(x, Results) else x for x in args), **kwargs)

    method.__name__ = name
    method.__doc__ = plain.__doc__
    return method


for _name in (
    *("__add__", "__contains__", "__delitem__", "__eq__", "__ge__", "__gt__", "__iadd__", "__imul__", "__le__"),
    *("__lt__", "__mul__", "__ne__", "__repr__", "__reversed__", "__rmul__", "__setitem__", "append", "clear", "copy"),
    *("count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"),
):
    setattr(Results, _name, _looking(_name))


def _radd(self: Results[Any], other: list[Any]) -> list[Any]:
    return [*other, *self]


Results.__radd__ = _radd  # type: ignore[attr-defined]
