"""Finds the engine that a saga's verbs work with; the runtime installs how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from celery_saga.client.known import Catalogue, KnownSaga
from celery_saga.engine.callers import CallersEngine
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery_saga.engine.engine import Engine

__all__ = ["Binding", "Resolver", "current", "engine_of", "set_resolver", "set_signatures", "signature"]


class Binding(Protocol):
    """One app's engine, as the client sees it."""

    @property
    def engine(self) -> Engine:
        """Starts and steers runs."""

    @property
    def registry(self) -> Catalogue:
        """The sagas of the app."""

    @property
    def eager(self) -> bool:
        """Runs are executed in the caller's process, at once."""

    def headers(self) -> Mapping[str, str]:
        """Message headers to keep with a run that starts here; they go on each of its messages."""

    def after_start(self, run_id: str) -> None:
        """When eager: execute the run up to its end or its next wait."""


Resolver = Callable[["KnownSaga | None"], Binding]
"""Gives the binding for a saga, or for no saga in particular; raises DefinitionError where there is none."""

_resolver: Resolver | None = None
_make_signature: Callable[[str, tuple[Any, ...], Mapping[str, Any]], Any] | None = None


def set_resolver(resolver: Resolver | None) -> Resolver | None:
    """Install how bindings are found, for the whole process; None removes it. What was installed before."""
    global _resolver
    before, _resolver = _resolver, resolver
    return before


def current(saga: KnownSaga | None = None) -> Binding:
    """The binding for a saga.

    Raises:
        DefinitionError: no Celery app of this process has celery_saga added; nothing was written.
    """
    if _resolver is None:
        what = "celery_saga" if saga is None else f"saga {saga.name!r}"
        raise DefinitionError(
            f"{what}: no Celery app of this process has celery_saga added; nothing was written. "
            "Write CelerySaga(app) where the app is made, and import that module."
        )
    return _resolver(saga)


def set_signatures(make: Callable[[str, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
    """Install how Celery's signatures are made: of a task's name and its arguments."""
    global _make_signature
    _make_signature = make


def signature(task: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A Celery signature.

    Raises:
        DefinitionError: no Celery app of this process has celery_saga added.
    """
    if _make_signature is None:
        raise DefinitionError(
            f"{task}: no Celery app of this process has celery_saga added, so it cannot be made a signature. "
            "Write CelerySaga(app) where the app is made, and import that module."
        )
    return _make_signature(task, args, kwargs)


def engine_of(bound: Binding, connection: Any = None) -> tuple[Engine, Callable[[str], None] | None]:
    """The engine for what is done through a binding, and when eager what executes a run afterwards.

    Args:
        connection: of the caller, whose transaction it is to be part of; None: each thing is committed at once, unless
            the app's engine finds a transaction by itself.
    """
    engine = bound.engine if connection is None else CallersEngine(bound.engine, connection)

    def drive(run_id: str) -> None:
        # While the caller's transaction is open, nobody else sees what there is to do.
        if not engine.is_inside:
            bound.after_start(run_id)

    return engine, drive if bound.eager else None
