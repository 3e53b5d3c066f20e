"""An engine that takes part in whatever transaction of a framework is open around a call, without being told of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, Protocol, cast

from celery_saga.core.ports import Store, Transition
from celery_saga.core.records import RunRecord
from celery_saga.engine.callers import CallersEngine, Ending, Joinable
from celery_saga.engine.engine import Engine
from celery_saga.engine.start import NewRun
from celery_saga.engine.world import Event
from celery_saga.errors import DefinitionError

__all__ = ["Ambient", "AmbientEngine"]


class Ambient(Protocol):
    """Finds the transaction that is open around a call."""

    advice: str
    """How something is done outside of it; a sentence."""

    def connection(self) -> Any | None:
        """The connection with an open transaction on the saga database, as `Store.joined` takes it; None: none is."""

    def held(self) -> AbstractContextManager[object]:
        """A block for what is written: in it the connection tells of its commit."""


class AmbientEngine(Engine):
    """Starts, signals and cancels in the transaction that is open when it is called; where none is, as any engine does.

    Args:
        engine: of the process.
        ambient: finds the transaction.
    """

    def __init__(self, engine: Engine, ambient: Ambient) -> None:
        self.__dict__.update(engine.__dict__)
        self._plain = engine
        self._ambient = ambient
        self._ending: Ending | None = None

    @property
    def is_inside(self) -> bool:
        """See `Engine.is_inside`."""
        return self._ambient.connection() is not None

    @property
    def store(self) -> Store:
        """The tables as the open transaction sees them; where none is open, as everybody does."""
        connection = self._ambient.connection()
        return self._plain.store if connection is None else cast(Joinable, self._plain.store).joined(connection)

    def start(self, new: NewRun) -> tuple[RunRecord, bool]:
        """See `CallersEngine.start`."""
        with self._joined() as engine:
            return engine.start(new)

    def signal(self, run_id: str, name: str, **options: Any) -> str:
        """See `CallersEngine.signal`."""
        with self._joined() as engine:
            return engine.signal(run_id, name, **options)

    def cancel(
        self, run_id: str, *, compensate: bool = True, reason: str = "", by: str | None = None
    ) -> dict[str, Any]:
        """See `CallersEngine.cancel`."""
        with self._joined() as engine:
            return engine.cancel(run_id, compensate=compensate, reason=reason, by=by)

    def cancelling(self, run_id: str, *, compensate: bool, reason: str, by: str | None) -> Transition:
        """See `Engine.cancelling`. DefinitionError: a transaction is open; nothing was changed."""
        if self.is_inside:
            self._refuse()
        return self._plain.cancelling(run_id, compensate=compensate, reason=reason, by=by)

    def check_may_wait(self, what: str) -> None:
        """See `Engine.check_may_wait`."""
        if self.is_inside:
            raise DefinitionError(
                f"{what} was called while a transaction is open, whose commit the run may need to go on; nothing was "
                f"written. {self._ambient.advice}"
            )

    def is_undone(self) -> bool:
        """See `Engine.is_undone`."""
        return self._ending is not None and self._ending.is_rolled_back

    def _operate(self, run_id: str, event: Event) -> RunRecord:
        return self._refuse() if self.is_inside else self._plain._operate(run_id, event)

    def _refuse(self) -> NoReturn:
        raise DefinitionError(
            "while a transaction is open runs can be started, signalled and cancelled in it, and nothing else: other "
            f"verbs take locks that it would keep. Nothing was changed. {self._ambient.advice}"
        )

    @contextmanager
    def _joined(self) -> Iterator[Engine]:
        with self._ambient.held():
            connection = self._ambient.connection()
            if connection is None:
                yield self._plain
                return
            engine = CallersEngine(self._plain, connection)
            yield engine
            self._ending = engine.ending
