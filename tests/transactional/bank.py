"""A bank with a table of its own in the saga database: its app executes runs in the test's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    make_url,
    select,
)

from celery_saga import CelerySaga, Saga
from celery_saga.client import binding
from celery_saga.core.records import StepRecord
from celery_saga.store import SqlStore, migrate

ledger = Table(
    "ledger",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("word", String(100), nullable=False),
    Column("once", String(100), unique=True),
    mysql_engine="InnoDB",
)


class Bank:
    """One app on one database.

    Args:
        url: of an empty database, as SQLAlchemy takes it.
        settings: of the app, beside `task_always_eager`.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        self.app = Celery("bank", set_as_current=False)
        self.app.close()  # out of the list of apps that get every shared task of the process
        self.app.conf.update(task_always_eager=True, saga_sagas=(), **settings)
        self.saga = CelerySaga(self.app, database_url=url)
        self.url = make_url(url)
        migrate(self.store)
        self.engine: Engine = self.store.own_sessions.engine if self.is_in_memory else create_engine(self.url)
        with self.engine.begin() as connection:
            ledger.create(connection)
        binding.set_resolver(lambda _saga: self.saga)

    @property
    def store(self) -> SqlStore:
        return self.saga.store

    @property
    def is_in_memory(self) -> bool:
        return self.url.database is None

    def task(self, name: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """Register a task in this bank alone."""
        return self.app.task(name=f"bank.{name}", shared=False, **options)

    def add(self, saga: Saga[..., Any]) -> Saga[..., Any]:
        self.saga.registry.add(saga)
        return saga

    def words(self) -> list[str]:
        """What is in the ledger, in order, as another connection sees it."""
        with self.engine.connect() as connection:
            return list(connection.scalars(select(ledger.c.word).order_by(ledger.c.id)))

    def step(self, run_id: str, key: str) -> StepRecord:
        return next(each for each in self.store.steps(run_id) if each.key == key)

    def close(self) -> None:
        self.engine.dispose()
        self.saga.services.close()
        self.app.close()


def write(connection: Connection, word: str, once: str | None = None) -> None:
    """One row of the ledger."""
    connection.execute(insert(ledger).values(word=word, once=once))
