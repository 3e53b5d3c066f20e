"""The contract on each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import text

from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.store_contract import StoreContract
from celery_saga.testing.team import ProcessTeam, Team, ThreadTeam
from tests.servers import fresh_mariadb_database, fresh_postgresql_database
from tests.servers.emptying import empty


class _OnFileOrServer(StoreContract):
    """One database for all tests of a class: to make its tables takes longer than most tests."""

    @pytest.fixture(scope="class")
    @classmethod
    def migrated(cls, url: str) -> str:
        store = open_store(url)
        migrate(store)
        store.close()
        return url

    @pytest.fixture
    def store(self, migrated: str) -> Iterator[SqlStore]:
        store = open_store(migrated)
        empty(store)
        yield store
        store.close()

    @pytest.fixture
    def another(self, url: str, store: SqlStore) -> Iterator[SqlStore | None]:
        other = open_store(url)
        yield other
        other.close()

    @pytest.fixture
    def team(self, url: str, store: SqlStore, processes: ProcessTeam) -> Team:
        return processes.on(partial(open_store, url))


class _OnPostgreSql(_OnFileOrServer):
    @pytest.fixture
    def cut(self, another: SqlStore) -> Callable[[], None]:
        def end_all() -> None:
            with another.sessions.engine.connect() as connection:
                connection.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
                )

        return end_all


class TestOnSqliteFile(_OnFileOrServer):
    @pytest.fixture(scope="class")
    @classmethod
    def url(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        return f"sqlite:///{tmp_path_factory.mktemp('contract')}/saga.db"

    @pytest.fixture
    def cut(self) -> Callable[[], None]:
        pytest.skip("there is no server that could cut a connection")


class TestOnSqliteInMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        store = open_store("sqlite://")
        migrate(store)
        yield store
        store.close()

    @pytest.fixture
    def another(self) -> None:
        return None

    @pytest.fixture
    def team(self, store: SqlStore) -> Team:
        return ThreadTeam(store, 4)

    @pytest.fixture
    def cut(self) -> Callable[[], None]:
        pytest.skip("there is no server that could cut a connection")


class TestOnPostgreSqlThroughPsycopg2(_OnPostgreSql):
    @pytest.fixture(scope="class")
    @classmethod
    def url(cls) -> Iterator[str]:
        with fresh_postgresql_database("psycopg2") as url:
            yield url


class TestOnPostgreSqlThroughPsycopg(_OnPostgreSql):
    @pytest.fixture(scope="class")
    @classmethod
    def url(cls) -> Iterator[str]:
        with fresh_postgresql_database("psycopg") as url:
            yield url


class TestOnMariaDb(_OnFileOrServer):
    @pytest.fixture(scope="class")
    @classmethod
    def url(cls) -> Iterator[str]:
        with fresh_mariadb_database() as url:
            yield url

    @pytest.fixture
    def cut(self, another: SqlStore) -> Callable[[], None]:
        def end_all() -> None:
            with another.sessions.engine.connect() as connection:
                mine = connection.execute(text("SELECT CONNECTION_ID()")).scalar_one()
                others = connection.execute(
                    text("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> :mine"),
                    {"mine": mine},
                ).scalars()
                for number in others.all():
                    connection.execute(text(f"KILL CONNECTION {number}"))

        return end_all
