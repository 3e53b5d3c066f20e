"""What stores of the same tables share, and what not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from celery_saga.store import Vault, open_store


class Mirror:
    """A codec."""

    encode = decode = staticmethod(lambda text: text[::-1])


def test_two_stores_of_one_process_on_the_same_tables_share_them() -> None:
    first, second = (open_store("postgresql://shop@db/shop", shares=True) for _ in range(2))

    assert first.schema is second.schema
    assert first.sessions.engine is not second.sessions.engine


@pytest.mark.parametrize("other", ["postgresql://shop@db/another", "sqlite://"])
def test_another_database_has_tables_of_its_own(other: str) -> None:
    assert open_store("postgresql://shop@db/shop", shares=True).schema is not open_store(other, shares=True).schema


def test_what_is_sealed_or_has_a_clock_is_not_shared() -> None:
    plain = open_store("sqlite://", shares=True)
    sealed = open_store("sqlite://", shares=True, vault=Vault(Mirror()))
    clocked = open_store("sqlite://", shares=True, clock=lambda: datetime.now(UTC))

    assert len({id(each.schema) for each in (plain, sealed, clocked)}) == 3


def test_only_a_few_databases_are_remembered() -> None:
    first = open_store("postgresql://shop@db/first", shares=True)
    for number in range(8):
        open_store(f"postgresql://shop@db/later{number}", shares=True)

    assert open_store("postgresql://shop@db/first", shares=True).schema is not first.schema
