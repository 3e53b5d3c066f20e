"""Runs in one of several databases; run by test_joining.py."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from proj import celery_app
from shop.models import Order
from shop.sagas import checkout

from celery_saga import IdempotencyConflict
from contrib_django.models import Run

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "sagas"])


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    celery_app.saga.services.store.now()
    yield
    celery_app.saga.services.close()


def tables(alias: str) -> set[str]:
    return {name for name in connections[alias].introspection.table_names() if name.startswith("saga_")}


def test_the_tables_are_on_one_alias_alone() -> None:
    assert tables("default") == set()
    assert "saga_run" in tables("sagas")
    call_command("migrate", "celery_saga", "zero", database="default", verbosity=0)
    assert "saga_run" in tables("sagas")


def test_models_read_where_the_runs_are() -> None:
    run = checkout.start(1, 100)

    assert Run.objects.get().pk == run.id
    assert [tag.tag for tag in Run.objects.get().tags.all()] == []


def test_a_block_on_the_saga_database_is_joined() -> None:
    with suppress(KeyError), transaction.atomic(using="sagas"):
        checkout.start(1, 100)
        raise KeyError

    assert Run.objects.count() == 0


def test_a_block_elsewhere_is_not_and_that_is_said_once() -> None:
    with pytest.warns(RuntimeWarning, match="is no part of"), suppress(KeyError), transaction.atomic():
        Order.objects.create(item="chair")
        checkout.start(1, 100)
        raise KeyError
    assert (Run.objects.count(), Order.objects.count()) == (1, 0)

    with warnings.catch_warnings(), transaction.atomic():
        warnings.simplefilter("error")
        with pytest.raises(IdempotencyConflict):
            checkout.start(1, 200)
