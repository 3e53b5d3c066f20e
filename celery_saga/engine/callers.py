"""Runs started, signalled and cancelled inside a caller's transaction: rows are inserted there, and nothing else.

No lock is taken and nothing is decided on the caller's connection: each row has its wake-up. Messages go out right
after the caller's commit; if the caller dies in between, a sweeper sends them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, cast

from celery_saga.core import operator, wakeup
from celery_saga.core.ports import Loaded, Store
from celery_saga.core.records import RunRecord
from celery_saga.core.replacing import replace
from celery_saga.core.requests import cancel_request
from celery_saga.engine import signals, start
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import RunMessage
from celery_saga.engine.start import NewRun
from celery_saga.engine.world import Event, cannot_be_read, refuse_purged
from celery_saga.errors import DefinitionError, RunNotFound, SignalDuplicate


class Ending(Protocol):
    """How the caller's transaction has ended."""

    @property
    def is_open(self) -> bool:
        """It has not."""

    @property
    def is_rolled_back(self) -> bool:
        """Nothing of it is left."""


class CallersStore(Store, Protocol):
    """The store in a caller's transaction."""

    def after_commit(self, do: Callable[[], object]) -> Ending:
        """Call `do` right after the caller's commit; never if the caller rolls back."""


class Joinable(Store, Protocol):
    """A store whose statements can go into a caller's transaction."""

    def joined(self, connection: Any) -> CallersStore:
        """The same store on the caller's connection."""


class CallersEngine(Engine):
    """An engine for one transaction of a caller's: the one that is open when it is first used.

    Once that has ended it is like any other engine: what is done then is committed at once.

    Args:
        engine: of the process.
        connection: a SQLAlchemy connection or session, or Django's connection, on the saga database.
    """

    def __init__(self, engine: Engine, connection: Any) -> None:
        self.__dict__.update(engine.__dict__)
        self._connection = connection
        self._callers: CallersStore | None = None
        self._ending: Ending | None = None

    @property
    def is_inside(self) -> bool:
        """The caller's transaction is open."""
        return self._inside() is not None

    @property
    def ending(self) -> Ending | None:
        """How the caller's transaction has ended; None: nothing was done in it."""
        return self._ending

    @property
    def store(self) -> Store:
        """The tables as the caller's transaction sees them; once it has ended, as everybody does."""
        return self._inside() or self.world.store

    def start(self, new: NewRun) -> tuple[RunRecord, bool]:
        """See `start.start`; the run is there for others once the caller has committed.

        Raises:
            DefinitionError: `if_exists` is restart_failed, which takes a lock; nothing was written.
        """
        inside = self._inside()
        if inside is None:
            return super().start(new)
        if new.if_exists == "restart_failed":
            raise DefinitionError(
                f"saga {new.saga!r}: if_exists='restart_failed' cannot go into a caller's transaction, because it "
                "takes a lock that would be kept; nothing was written. Start it outside of the transaction."
            )
        world = replace(self.world, store=inside)
        return start.start(world, new, publish=lambda run: self._wake_after(inside, run))

    def signal(self, run_id: str, name: str, **options: Any) -> str:
        """See `signals.signal`; always "kept": whether a wait takes it shows after the commit."""
        inside = self._inside()
        if inside is None:
            return super().signal(run_id, name, **options)
        loaded, sent = signals.prepare(replace(self.world, store=inside), run_id, name, **options)
        _, written = inside.put_signal(sent)
        if not written:
            raise SignalDuplicate(
                f"run {run_id!r}: signal {name!r} with id {sent.signal_id!r} was sent before; nothing was written",
                signal=name,
            )
        if loaded is not None:
            self._wake_after(inside, loaded.snapshot.run)
        return "kept"

    def cancel(
        self, run_id: str, *, compensate: bool = True, reason: str = "", by: str | None = None
    ) -> dict[str, Any]:
        """See `Engine.cancel`: asked for by a row, and done once the caller has committed.

        Raises:
            PayloadUnreadable: something of it cannot be read here, whatever `compensate` says; nothing was written.
        """
        inside = self._inside()
        if inside is None:
            return super().cancel(run_id, compensate=compensate, reason=reason, by=by)
        loaded: Loaded | None = inside.load(run_id)
        if loaded is None:
            raise RunNotFound(f"run {run_id!r}: there is no such run; nothing was changed", run_id=run_id)
        s, now = loaded.snapshot, loaded.now
        refuse_purged(s.run)
        if loaded.unreadable is not None and s.is_live:
            raise cannot_be_read(run_id, loaded.unreadable)  # who can read the run could not read the request
        after = operator.cancel(s, now, compensate=compensate, reason=reason, by=by)
        if after is not s:
            request = cancel_request(run_id, self.world.token(), now, compensate=compensate, reason=reason, by=by)
            inside.put_signal(replace(request, wake_at=wakeup.after(now, self.world.resend_s)))
            self._wake_after(inside, s.run)
        return {"cancelled": operator.was_cancelled(after), "status": s.run.status.value}

    def check_may_wait(self, what: str) -> None:
        """See `Engine.check_may_wait`."""
        if self._ending is not None and self._ending.is_open:
            raise DefinitionError(
                f"{what} was called inside the transaction that the run waits for, and would never return; nothing was "
                "written. Commit first, or wait elsewhere."
            )

    def is_undone(self) -> bool:
        """See `Engine.is_undone`."""
        return self._ending is not None and self._ending.is_rolled_back

    def _operate(self, run_id: str, event: Event) -> RunRecord:
        return self._refuse() if self._inside() is not None else super()._operate(run_id, event)

    def _refuse(self) -> NoReturn:
        raise DefinitionError(
            "in a caller's transaction runs can be started, signalled and cancelled, and nothing else; nothing was "
            "changed. Use a handle that was got without connection=, as from app.saga.get(run_id)."
        )

    def _inside(self) -> CallersStore | None:
        """The store in the caller's transaction; None once that has ended."""
        if self._ending is None:
            self._callers = cast(Joinable, self.world.store).joined(self._connection)
            self._ending = self._callers.after_commit(lambda: None)
        return self._callers if self._ending.is_open else None

    def _wake_after(self, inside: CallersStore, run: RunRecord) -> None:
        inside.after_commit(lambda: self.world.publisher.publish([RunMessage(run)]))
