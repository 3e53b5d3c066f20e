"""Houses for tests about lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

from tests.lanes.yard import Yard
from tests.scenarios.house import House, Place
from tests.servers import fresh_mariadb_database, fresh_postgresql_database

STORES = ["sqlite", "postgresql", "mariadb"]


@pytest.fixture(scope="session", params=STORES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A database with our tables: in memory, and on the servers whose locks differ."""
    match request.param:
        case "sqlite":
            database: AbstractContextManager[str] = nullcontext("sqlite://")
        case "mariadb":
            database = fresh_mariadb_database()
        case _:
            database = fresh_postgresql_database("psycopg2")
    with database as url:
        built = Place(url)
        yield built
        built.store.close()


@pytest.fixture
def house(place: Place) -> Iterator[House]:
    """One house in an empty database."""
    place.empty()
    with House(place) as built:
        yield built


@pytest.fixture
def yard(house: House) -> Yard:
    """Its sagas and what they have done."""
    return Yard(house)
