"""Keeps each name and version of a saga to one definition, in the whole process."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Protocol
from weakref import WeakValueDictionary

from celery_saga.errors import DefinitionError

__all__ = ["Declared", "declare", "declared", "declared_as", "home", "observe", "refuse_namesake"]


class Declared(Protocol):
    """What is asked of a saga here."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def version(self) -> int:
        """Its version, from 1."""

    @property
    def body(self) -> Callable[..., object]:
        """The function that was decorated."""


# Weak: a saga that was defined in a function that is over, as in a test, is in nobody's way.
_declared: WeakValueDictionary[tuple[str, int], Declared] = WeakValueDictionary()


# A graph or canvas that a module makes a saga of need not be bound to a name: it is there as long as its module.
_of_modules: dict[tuple[str, str, int], Declared] = {}

_observers: list[Callable[[Declared], None]] = []


def declare(saga: Declared) -> None:
    """Take the saga's name and version; the same function again, as when its module is reloaded, replaces itself.

    Two definitions that a project imports together are refused. A definition inside a function, as in a test, may
    have the name of one elsewhere: it does not take that one's place among the declared, and `Saga.start` refuses a
    saga whose app knows another one of its name.

    Raises:
        DefinitionError: another live definition of the same place has them; nothing was registered.
    """
    wanted = (saga.name, saga.version)
    if _rival(wanted, saga) is not None:
        gc.collect()  # it may be dead and only held by a cycle
    there = _rival(wanted, saga)
    if there is not None and _place(there) == _place(saga):
        raise DefinitionError(
            f"saga {saga.name!r} version {saga.version} is defined twice, by {home(there)} and {home(saga)}; the "
            "second was not registered. Give one of them another name=, or a changed body a new version=."
        )
    if there is None or _is_local(there):
        _declared[wanted] = saga
        if not _is_local(saga):
            _of_modules[saga.body.__module__, *wanted] = saga
        for observer in _observers:
            observer(saga)


def observe(observer: Callable[[Declared], None]) -> None:
    """Call `observer` with each saga that is declared from now on; it raises nothing."""
    if observer not in _observers:
        _observers.append(observer)


def _rival(wanted: tuple[str, int], saga: Declared) -> Declared | None:
    there = _declared.get(wanted)
    return None if there is None or home(there) == home(saga) else there


def _is_local(saga: Declared) -> bool:
    return "<locals>" in home(saga)


def _place(saga: Declared) -> str:
    """The function that a definition stands in; the same for all that stand in modules, which are imported together."""
    return home(saga).rpartition(".<locals>")[0] if _is_local(saga) else ""


def refuse_namesake(saga: Declared, known: object) -> None:
    """Refuse to start a saga whose app knows another body under its name and version, and would execute that one.

    Raises:
        DefinitionError: it does; nothing was written.
    """
    if known is None:
        return
    other: Declared = known  # type: ignore[assignment]  # sagas of this process have bodies
    if home(other) != home(saga):
        raise DefinitionError(
            f"saga {saga.name!r} version {saga.version}: the app knows {home(other)} under this name, not "
            f"{home(saga)}; nothing was written. Give one another name=, or name the sagas of the app in saga_sagas."
        )


def declared() -> list[Declared]:
    """Every saga that this process has declared and still holds."""
    return list(_declared.values())


def declared_as(name: str, version: int) -> Declared | None:
    """The saga that this process has declared under this name and version, and still holds; None: there is none."""
    return _declared.get((name, version))


def home(saga: Declared) -> str:
    """Module and qualified name of its body; of its stub where the body lives apart."""
    body = getattr(saga, "__wrapped__", saga.body)
    return f"{getattr(body, '__module__', '?')}.{getattr(body, '__qualname__', repr(body))}"
