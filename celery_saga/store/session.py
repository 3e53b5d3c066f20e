"""One transaction at a time: tried again when the database asks for that, and always letting its connection go."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import URL, Connection, CursorResult, Dialect, Engine, Executable
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from celery_saga.errors import DefinitionError, SagaError, SchemaOutdated, StoreUnavailable
from celery_saga.store.dialects import Database, Trouble
from celery_saga.store.dialects.base import WRITES
from celery_saga.store.ready import Ready
from celery_saga.store.vault import Carry, Vault

T = TypeVar("T")
if TYPE_CHECKING:
    Rows = CursorResult[*tuple[Any, ...]]
else:
    Rows = CursorResult
Trace = Callable[[str], None]
Params = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_TRIES = 20
_LOCKED_LIMIT_S = 60.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.5


class GuardMissed(Exception):
    """A guarded write met a row that had changed since it was read; the transaction is to be done again."""


class Tx:
    """A transaction under way.

    Args:
        connection: of our engine, or a caller's.
        trace: called with a label before and after each statement; None: not called.
        again: an earlier try may have committed without our learning it.
    """

    __slots__ = ("again", "connection", "discarded", "in_driver", "trace")

    def __init__(self, connection: Connection, trace: Trace | None, *, again: bool = False) -> None:
        self.connection = connection
        self.trace = trace
        self.again = again
        self.discarded = False
        self.in_driver = False

    def run(self, label: str, statement: Executable, params: Params | None = None) -> Rows:
        """Execute one statement; `label` names it to the trace."""
        if self.trace is None:
            return self._execute(statement, params)
        self.trace(f"before:{label}")
        result = self._execute(statement, params)
        self.trace(f"after:{label}")
        return result

    def discard(self) -> None:
        """Roll back instead of committing when the work is done: it wrote nothing that is to stay."""
        self.discarded = True

    def end(self, name: str) -> None:
        """Commit, or roll back what was discarded."""
        word, act = ("rollback", self.connection.rollback) if self.discarded else ("commit", self.connection.commit)
        if self.trace is not None:
            self.trace(f"before:{word} {name}")
        self.in_driver = True
        act()
        self.in_driver = False
        if self.trace is not None:
            self.trace(f"after:{word} {name}")

    def _execute(self, statement: Executable, params: Params | None) -> Rows:
        self.in_driver = True
        result = self.connection.execute(statement, params)
        self.in_driver = False
        return result


class Sessions:
    """Connections of this process to one database.

    Args:
        patience_s: for how long an unreachable database is tried again, in seconds.
        vault: how payloads are at rest.
    """

    def __init__(
        self, url: URL, database: Database, options: Mapping[str, Any], *, patience_s: float, vault: Vault | None = None
    ) -> None:
        self.vault = vault or Vault()
        self.trace: Trace | None = None
        self.patience_s = patience_s
        self.database = database
        self.engine = database.engine(url, {"pool_reset_on_return": None, "hide_parameters": True, **options})
        self._writer = self.engine.execution_options(**{WRITES: True})
        self._reader = self.engine.execution_options(**(database.reads_options if database.begins_by_itself else {}))
        self.dialects: dict[tuple[str, bool], tuple[Dialect, Any]] = {}
        """Of the drivers that callers use, by name and whether they have Django's parameters, with what is compiled."""
        self._probed = False
        self._pid = os.getpid()
        self._inherited: list[object] = []
        self._turn = threading.RLock()
        self._lent_to: set[int] = set()  # threads that fill a transaction themselves

    def close(self) -> None:
        """Close all connections of this process."""
        self._leave_parents_behind()
        self.engine.dispose()

    def after_fork(self) -> None:
        """In a child: leave the parent's connections alone, without closing them, and open new ones when needed."""
        # Kept alive on purpose: collecting them would say goodbye on the parent's sockets.
        self._inherited.append(self.engine.pool)
        self.engine.dispose(close=False)
        self._turn = threading.RLock()
        self._lent_to = set()
        self._pid = os.getpid()

    def prepare(self) -> None:
        """Speak to the database once, so that its dialect knows the server."""
        if not self._probed:
            self.read("prepare", lambda tx: None)

    def write(
        self,
        name: str,
        work: Callable[[Tx], T],
        *,
        guarded: bool = False,
        fetches: bool = True,
        again: bool = False,
    ) -> T:
        """Do `work` in a transaction and commit it; `guarded` changes nothing here.

        `work` may be called again after a deadlock, a time-out, a missed guard, a lost connection, or when a text had
        to be put elsewhere or fetched from there.

        Args:
            fetches: False: what is stored elsewhere is not fetched.
            again: something of this may have been committed already, without our learning it.

        Raises:
            StoreUnavailable: out of reach for longer than `patience_s`; nothing is known to be written.
            SchemaOutdated: a table or column is missing; nothing was written.
        """
        return self.vault.carrying(
            lambda: _Tries(self).until_done(lambda lost: self._once(name, work, writes=True, again=again or lost)),
            fetches=fetches,
        )

    def read(self, name: str, work: Callable[[Tx], T]) -> T:
        """Do `work`, which only reads; as `write` otherwise."""
        return self.vault.carrying(
            lambda: _Tries(self).until_done(lambda again: self._once(name, work, writes=False, again=again))
        )

    def at_once(self, label: str, ready: Ready, bound: Sequence[Any]) -> Sequence[list[Any]]:
        """Execute a statement that is a transaction of its own, once; its rows.

        Args:
            bound: as of `Ready.bound`.

        Raises:
            DBAPIError: as the driver has it; where the connection was lost, it may have committed.
            StoreUnavailable: no connection was free; nothing was written.
        """
        self._leave_parents_behind()
        try:
            lent = self.engine.raw_connection()
        except PoolTimeout as error:
            raise _none_was_free() from error
        except self.engine.dialect.loaded_dbapi.Error as error:
            raise ready.told(error) from error
        driver = lent.dbapi_connection
        assert driver is not None
        try:
            if self.trace is not None:
                self.trace(f"before:{label}")
            with self.database.autocommit(driver):
                rows = ready.run(driver, lent.info, bound)
            if self.trace is not None:
                self.trace(f"after:{label}")
        except BaseException as error:
            if not isinstance(error, Exception) or getattr(error, "connection_invalidated", False):
                lent.invalidate(error)
            raise
        finally:
            lent.close()
        return rows

    def own_engine(self) -> Engine:
        """The engine, without connections of a parent process."""
        self._leave_parents_behind()
        return self.engine

    def read_once(self, name: str, work: Callable[[Tx], T]) -> T:
        """`read` that is tried once; raises whatever comes."""
        return self._once(name, work, writes=False, again=False)

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection with a transaction begun, for somebody else to fill and to end.

        Raises:
            StoreUnavailable: out of reach for longer than `patience_s`; nothing was begun.
        """
        self._leave_parents_behind()
        self._refuse_second(writes=True)
        mine = threading.get_ident()
        with self._in_turn():
            connection = _Tries(self).until_done(lambda again: self._begun())
            self._lent_to.add(mine)
            try:
                yield connection
            finally:
                self._lent_to.discard(mine)
                connection.close()

    def _begun(self) -> Connection:
        # Not from `_writer`: before SQLAlchemy 2.1 nobody can listen to a connection of such an engine.
        connection = self.engine.connect().execution_options(**{WRITES: True})
        try:
            self._probe(connection)
            connection.begin()
        except BaseException:
            connection.invalidate()
            raise
        return connection

    def _refuse_second(self, *, writes: bool) -> None:
        """A thread that has the only writer, or the only connection, would wait for itself."""
        blocks = self.database.one_connection or (self.database.one_writer and writes)
        if blocks and threading.get_ident() in self._lent_to:
            raise DefinitionError(
                "a transactional step has this SQLite database to itself, so nothing else can be done there meanwhile; "
                "nothing was written. In its task use current_step.connection, also to start and signal runs: "
                "Saga.options(connection=current_step.connection)."
            )

    def _once(self, name: str, work: Callable[[Tx], T], *, writes: bool, again: bool) -> T:
        self._leave_parents_behind()
        self._refuse_second(writes=writes)
        with (
            self._in_turn(),
            (self._writer if writes else self._reader).connect() as connection,
            nullcontext() if writes else self.database.autocommit(connection.connection.dbapi_connection),
        ):
            self._probe(connection)
            tx = Tx(connection, self.trace, again=again)
            try:
                self.vault.begin()
                answer = work(tx)
                self.vault.check()
                if writes:
                    tx.end(name)
                elif not self.database.begins_by_itself:
                    connection.rollback()
            except BaseException as error:
                self._abandon(tx, name, error)
                raise
        return answer

    def _abandon(self, tx: Tx, name: str, error: BaseException) -> None:
        try:
            if tx.trace is not None and isinstance(error, Exception):
                tx.trace(f"before:rollback {name}")
        finally:
            # Interrupted inside the driver, an answer may still be on its way: the connection cannot be used again.
            lost = isinstance(error, DBAPIError) and self.database.trouble(error) is Trouble.LOST
            cut = tx.in_driver and not isinstance(error, StatementError)
            if (lost or cut or not isinstance(error, Exception)) and not self.database.one_connection:
                tx.connection.invalidate()
            else:
                tx.connection.rollback()

    def _probe(self, connection: Connection) -> None:
        if not self._probed:
            self.database.probe(connection)
            self._probed = True

    def _leave_parents_behind(self) -> None:
        if self._pid != os.getpid():
            self.after_fork()

    def _in_turn(self) -> AbstractContextManager[Any]:
        return self._turn if self.database.one_connection else nullcontext()


def _none_was_free() -> StoreUnavailable:
    return StoreUnavailable(
        "no connection to the saga database was free; nothing was written. "
        "Give the pool more (saga_engine_options: pool_size, max_overflow)."
    )


class _Tries:
    """How often and for how long one piece of work has been tried."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._count = 0
        self._lost = 0
        self._first_at_s: float | None = None  # of the monotonic clock

    def until_done(self, once: Callable[[bool], T]) -> T:
        while True:
            try:
                return once(self._lost > 0)
            except GuardMissed as error:
                self._again(Trouble.CONFLICT, error, pauses=self._count > 3)
            except PoolTimeout as error:
                raise _none_was_free() from error
            except DBAPIError as error:
                self._after(error)
            except StatementError as error:
                # Refused by one of our column types, before anything was sent.
                raise (error.orig if isinstance(error.orig, (SagaError, Carry)) else error) from None

    def _after(self, error: DBAPIError) -> None:
        trouble = self._sessions.database.trouble(error)
        if trouble in {Trouble.ABSENT, Trouble.SCHEMA, Trouble.OTHER}:
            raise refusal(self._sessions.database, error) or error from error
        self._again(trouble, error, pauses=trouble is not Trouble.LOST or self._lost > 0)

    def _again(self, trouble: Trouble, error: Exception, *, pauses: bool) -> None:
        now_s = time.monotonic()
        self._first_at_s = now_s if self._first_at_s is None else self._first_at_s
        self._count += 1
        spent_s = now_s - self._first_at_s
        if trouble is Trouble.LOST:
            self._lost += 1
            over = self._lost > 1 and spent_s > self._sessions.patience_s
        else:
            over = self._count >= _TRIES or spent_s > _LOCKED_LIMIT_S
        if over:
            what = "cannot be reached" if trouble is Trouble.LOST else "is too busy with the same rows"
            why = "" if isinstance(error, GuardMissed) else f" ({_first_line(error)})"
            raise StoreUnavailable(
                f"the saga database {what}{why}; given up after {self._count} tries in {spent_s:.1f} s, and nothing is "
                "known to be written. Ask again when it answers."
            ) from error
        if pauses:
            longest_s = min(_FIRST_PAUSE_S * 2 ** min(self._count, 10), _LONGEST_PAUSE_S)
            time.sleep(random.uniform(0, longest_s))


def refusal(database: Database, error: DBAPIError) -> SagaError | None:
    """What to tell of an error that is not tried again; None: a mistake of ours, to be raised as it is."""
    trouble = database.trouble(error)
    if trouble is Trouble.SCHEMA:
        return SchemaOutdated(
            f"the saga database lacks a table or column ({_first_line(error)}); nothing was written. "
            "Run `celery -A proj saga migrate`."
        )
    if trouble is Trouble.ABSENT:
        return StoreUnavailable(
            f"the saga database does not exist ({_first_line(error)}); nothing was written. Create it first, as with "
            "CREATE DATABASE; `celery -A proj saga migrate` then makes the tables in it."
        )
    # A full disk, a refused password, a server that only reads: as good as out of reach.
    if trouble is not Trouble.OTHER or isinstance(error, (OperationalError, InterfaceError)):
        return StoreUnavailable(f"the saga database refused ({_first_line(error)}); nothing was written")
    return None


def _first_line(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]
