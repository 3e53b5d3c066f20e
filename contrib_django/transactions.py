"""Runs in Django's transactions: what is started, signalled and cancelled in `atomic()` commits with it, steps too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from celery import Celery
from django.db import connections, transaction

from celery_saga.core.transactions import StepTransaction
from celery_saga.runtime.transactional import use_ambient, use_transactions
from celery_saga.store import SqlStore, in_transaction_of
from contrib_django.saga_database import saga_alias

__all__ = ["DjangosTransaction", "at_once", "join", "outside_requests"]

V = TypeVar("V")

_apart: ContextVar[bool] = ContextVar("celery_saga_at_once", default=False)


@contextmanager
def at_once() -> Iterator[None]:
    """In this block nothing takes part in Django's transactions: what is done with runs is committed at once.

    On a connection of its own, which does not see what an open `atomic()` has written; on SQLite it would wait for it.
    """
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


def outside_requests(view: V) -> V:
    """A view that no request's transaction surrounds: each verb is committed by itself, and may take locks."""
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def join(app: Celery) -> None:
    """Let an app's runs and transactional steps take part in Django's transactions on the saga database."""
    use_ambient(app, DjangosTransaction())
    use_transactions(app, _step_transaction)


class DjangosTransaction:
    """See `celery_saga.engine.ambient.Ambient`."""

    advice: str = (
        "Do it after the commit, as with transaction.on_commit(), or under contrib_django.transactions.at_once(); "
        "in tests use TransactionTestCase, whose transactions do commit."
    )

    def __init__(self) -> None:
        self._told: set[str] = set()

    def connection(self) -> Any | None:
        """Django's connection to the saga database, if an `atomic()` block or a transaction begun by hand is open."""
        alias = saga_alias()
        if alias is None or _apart.get():
            return None
        connection = connections[alias]
        return connection if connection.in_atomic_block or _is_by_hand(connection) else None

    def held(self) -> AbstractContextManager[object]:
        """With autocommit off there is an `atomic()` around it, outside of which Django tells of no commit."""
        connection = self.connection()
        if connection is None:
            self._tell_of_others()
            return nullcontext()
        return nullcontext() if connection.in_atomic_block else _block_by_hand(connection.alias)

    def _tell_of_others(self) -> None:
        if _apart.get():
            return
        for other in connections.all(initialized_only=True):
            if other.in_atomic_block and other.alias not in self._told:
                self._told.add(other.alias)
                warnings.warn(
                    f"a run was started, signalled or cancelled inside atomic(using={other.alias!r}), which it is no "
                    f"part of: runs are in {saga_alias() or 'another database'!r}. It is committed at once, and stays "
                    "when that block is rolled back. Said once.",
                    RuntimeWarning,
                    stacklevel=6,
                )


def _is_by_hand(connection: Any) -> bool:
    """Autocommit is off: each statement belongs to a transaction that the project ends by itself."""
    if connection.connection is None:
        return not connection.settings_dict["AUTOCOMMIT"]
    return not connection.autocommit


@contextmanager
def _block_by_hand(alias: str) -> Iterator[None]:
    # Without a savepoint: SQLite commits one that nothing surrounds. So an error must not leave through the block.
    failed: Exception | None = None
    with transaction.atomic(using=alias, savepoint=False):
        try:
            yield
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed


def _step_transaction(store: SqlStore) -> AbstractContextManager[StepTransaction]:
    alias = saga_alias()
    if alias is None:
        return store.step_transaction()
    connection = connections[alias]
    return in_transaction_of(
        store,
        connection,
        transaction.atomic(using=alias, durable=True),
        is_open=lambda: connection.in_atomic_block and not connection.needs_rollback,
    )
