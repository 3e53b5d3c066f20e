"""The transaction of a transactional step: the task writes in it, and the last thing in it is the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from celery_saga.core.transactions import Broken
from celery_saga.errors import SagaError, StoreUnavailable
from celery_saga.store.callers import DRIVERS
from celery_saga.store.dialects import Database, Trouble

if TYPE_CHECKING:
    from sqlalchemy.engine import ExceptionContext

    from celery_saga.store.sql_store import SqlStore

_OPTION = "celery_saga_step"
_LONGEST_CHAIN = 20
_BROKEN = {Trouble.CONFLICT: Broken.CONFLICT, Trouble.LOST: Broken.LOST}
_ENDS = re.compile(
    r"\s*(COMMIT|END|ABORT|ROLLBACK(?!\s+((WORK|TRANSACTION)\s+)?TO\b)|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION)\b",
    re.IGNORECASE,
)
_COMMITS_ON_MYSQL = re.compile(
    r"\s*((CREATE|DROP)\s+(?!TEMPORARY\b)|(ALTER|TRUNCATE|RENAME|GRANT|REVOKE|ANALYZE|OPTIMIZE|REPAIR|FLUSH)\b|"
    r"(UN)?LOCK\s+TABLES?\b|SET\s+(SESSION\s+)?AUTOCOMMIT\b)",
    re.IGNORECASE,
)


class OwnStepTransaction:
    """One on a connection of the store's own; see `celery_saga.core.transactions.StepTransaction`.

    Args:
        store: whose tables and connections these are.
        connection: has begun a transaction.
    """

    def __init__(self, store: SqlStore, connection: Connection) -> None:
        self.connection = connection
        self.store = store.joined(connection)
        self.broken: Broken | None = None
        self.first_error: BaseException | None = None
        self.in_driver = False
        self._database: Database = store.database
        self._root = connection.get_transaction()
        self._may_end = False
        connection.execution_options(**{_OPTION: self})
        event.listen(connection, "commit", self._before_commit)
        event.listen(connection, "before_cursor_execute", self._before_execute)
        event.listen(connection, "after_cursor_execute", self._after_execute)
        if not event.contains(connection.dialect, "handle_error", _on_error):
            event.listen(connection.dialect, "handle_error", _on_error)

    def check(self) -> None:
        """See `StepTransaction`."""
        if self.broken is not None:
            raise SagaError(f"the database has ended the transaction ({self.first_error})") from self.first_error
        if self._root is None or not self._root.is_active or self.connection.get_transaction() is not self._root:
            raise _not_yours("the task has rolled it back, or closed its connection")

    def commit(self) -> None:
        """Make the task's writes and its checkpoint last."""
        self._may_end = True
        self.connection.commit()

    def saw(self, error: BaseException) -> None:
        """Take note of an error that the database gave in this transaction."""
        self.in_driver = False
        self.first_error = self.first_error or error
        if isinstance(error, DBAPIError) and self.broken is None:
            self.broken = _BROKEN.get(self._database.trouble(error))

    def abandon(self, error: BaseException) -> None:
        """Leave nothing of it. Cut off inside the driver, its connection cannot be used again."""
        self._may_end = True
        unusable = self.broken is Broken.LOST or self.in_driver or not isinstance(error, Exception)
        if self.connection.closed:
            return
        if unusable and not self._database.one_connection:
            self.connection.invalidate()
            return
        try:
            self.connection.rollback()
            self.connection.connection.rollback()  # SQLAlchemy does not where it believes it done
        except DBAPIError:
            self.connection.invalidate()

    def _before_commit(self, connection: Connection) -> None:
        if not self._may_end:
            # Now: SQLAlchemy takes a transaction whose commit was refused for ended, and leaves the driver's open.
            connection.connection.rollback()
            raise _not_yours("the task has asked to commit it")

    def _before_execute(self, connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if _ENDS.match(statement):
            raise _not_yours(f"the task has executed {statement.split(maxsplit=1)[0].upper()}")
        if connection.dialect.name in {"mysql", "mariadb"} and _COMMITS_ON_MYSQL.match(statement):
            raise _not_yours(f"{statement.split(maxsplit=1)[0].upper()} would commit it")
        self.in_driver = True

    def _after_execute(self, *_: Any) -> None:
        self.in_driver = False


class BorrowedStepTransaction:
    """One that a framework has opened on a connection of its own; see `in_transaction_of`."""

    def __init__(self, store: SqlStore, connection: Any, is_open: Callable[[], bool]) -> None:
        self.connection = connection
        self.store = store.joined(connection)
        self.broken: Broken | None = None
        self.first_error: BaseException | None = None
        self._database: Database = store.database
        self._is_open = is_open

    def check(self) -> None:
        """See `StepTransaction`."""
        if self.broken is not None:
            raise SagaError(f"the database has ended the transaction ({self.first_error})") from self.first_error
        if not self._is_open():
            raise _not_yours("the task has ended it, or marked it to be rolled back")

    def saw(self, error: BaseException) -> None:
        """Take note of an error in this transaction: of the database, or raised from one."""
        self.first_error = self.first_error or error
        cause: BaseException | None = error
        for _ in range(_LONGEST_CHAIN):
            if cause is None or self.broken is not None:
                return
            self.broken = _BROKEN.get(_trouble(self._database, cause))
            cause = cause.__cause__ or cause.__context__


def _trouble(database: Database, error: BaseException) -> Trouble:
    if isinstance(error, DBAPIError):
        return database.trouble(error)
    is_of_driver = type(error).__module__.partition(".")[0] in DRIVERS
    return database.trouble(DBAPIError(None, None, error)) if is_of_driver else Trouble.OTHER


@contextmanager
def in_transaction_of(
    store: SqlStore,
    connection: Any,
    transaction: AbstractContextManager[object],
    *,
    is_open: Callable[[], bool],
) -> Iterator[BorrowedStepTransaction]:
    """A transaction of a step on a framework's own connection: what `celery_saga.runtime.use_transactions` takes.

    Args:
        connection: the framework's, as `SqlStore.joined` takes it; READ COMMITTED. The task gets it as it is.
        transaction: begins one when entered; commits when left without an exception, else rolls back.
        is_open: whether that transaction can still commit.
    """
    tx: BorrowedStepTransaction | None = None
    try:
        with transaction:
            tx = BorrowedStepTransaction(store, connection, is_open)
            yield tx
    except Exception as error:
        if tx is not None:
            tx.saw(error)
        elif _trouble(store.database, error.__cause__ or error) is Trouble.LOST:
            raise StoreUnavailable(f"the transaction of a step cannot begin ({error}); nothing was written") from error
        raise


def _not_yours(what: str) -> SagaError:
    return SagaError(
        f"{what}: a transactional step's transaction commits with its checkpoint, when the task returns; everything "
        "was rolled back. Use current_step.connection.begin_nested() for a part that may fail."
    )


def _on_error(context: ExceptionContext) -> None:
    if context.connection is not None:
        mine = context.connection.get_execution_options().get(_OPTION)
        if mine is not None:
            mine.saw(context.sqlalchemy_exception or context.original_exception)


@contextmanager
def step_transaction(store: SqlStore) -> Iterator[OwnStepTransaction]:
    """A transaction on a connection of the store's own; commits at the end of the block, rolls back on an exception.

    Raises:
        StoreUnavailable: the database is out of reach; the block was not entered.
    """
    trace = store.trace or (lambda _label: None)
    with store.own_sessions.lent() as connection:
        tx = OwnStepTransaction(store, connection)
        try:
            yield tx
            trace("before:commit step")
            tx.commit()
        except BaseException as error:
            tx.abandon(error)
            raise
    trace("after:commit step")
