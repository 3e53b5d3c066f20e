"""Stores on every database, and racers on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.team import ProcessTeam
from tests.servers import fresh_postgresql_database


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessTeam]:
    team = ProcessTeam(4)
    yield team
    team.close()


@pytest.fixture(scope="module", params=["psycopg2", "psycopg"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated PostgreSQL database for a module, through each driver."""
    with fresh_postgresql_database(request.param) as made:
        store = open_store(made)
        migrate(store)
        store.close()
        yield made


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    """A store on it, which may hold what earlier tests wrote."""
    store = open_store(url)
    yield store
    store.close()
