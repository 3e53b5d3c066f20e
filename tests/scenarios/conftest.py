"""Houses on every store, with and without duplicate delivery of each message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.bench import Bench
from tests.scenarios.house import House, Place
from tests.scenarios.shop import Shop
from tests.servers import fresh_mariadb_database, fresh_postgresql_database

STORES = ["sqlite-memory", "sqlite-file", "postgresql", "psycopg", "mariadb"]


@contextmanager
def _database(kind: str, folder: Path) -> Iterator[str]:
    match kind:
        case "sqlite-memory":
            yield "sqlite://"
        case "sqlite-file":
            yield f"sqlite:///{folder}/saga.db"
        case "mariadb":
            with fresh_mariadb_database() as url:
                yield url
        case _:
            with fresh_postgresql_database("psycopg2" if kind == "postgresql" else "psycopg") as url:
                yield url


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    with _database(request.param, tmp_path) as url:
        yield url


@pytest.fixture(scope="session", params=STORES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A database of each kind with our tables."""
    with _database(request.param, tmp_path_factory.mktemp("place")) as url:
        built = Place(url)
        yield built
        built.store.close()


@pytest.fixture(params=[False, True], ids=["once", "twice"])
def house(request: pytest.FixtureRequest, place: Place) -> Iterator[House]:
    """A house on each store, empty; "twice": every message is delivered twice."""
    place.empty()
    with House(place, duplicate=request.param) as built:
        yield built


@pytest.fixture
def shop(house: House) -> Shop:
    """The shop of this house."""
    return Shop(house)


@pytest.fixture
def checkout(house: House, shop: Shop) -> Any:
    """The checkout saga of this house."""
    built = shop.checkout()
    house.add(built)
    return built


@pytest.fixture
def bench(house: House) -> Bench:
    """Tasks of this house that do and undo as told."""
    return Bench(house)
