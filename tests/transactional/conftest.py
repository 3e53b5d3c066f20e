"""A bank on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transactional.bank import Bank

SERVERS = ("postgresql", "psycopg", "mariadb")


def _bank(request: pytest.FixtureRequest, kind: str, directory: Path) -> Iterator[Bank]:
    urls = {"memory": "sqlite://", "sqlite": f"sqlite:///{directory}/bank.db"}
    bank = Bank(urls[kind] if kind in urls else request.getfixturevalue(f"{kind}_url"))
    yield bank
    bank.close()


@pytest.fixture(params=["memory", "sqlite", *SERVERS])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """On every database."""
    yield from _bank(request, request.param, tmp_path)


@pytest.fixture(params=SERVERS)
def served_bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """On databases with several writers."""
    yield from _bank(request, request.param, tmp_path)


@pytest.fixture
def memory_bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """On a database in this process."""
    yield from _bank(request, "memory", tmp_path)


@pytest.fixture
def postgresql_bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """On PostgreSQL."""
    yield from _bank(request, "postgresql", tmp_path)


@pytest.fixture
def mariadb_bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """On MariaDB."""
    yield from _bank(request, "mariadb", tmp_path)
