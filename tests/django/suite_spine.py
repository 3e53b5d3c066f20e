"""The project's sagas in its test database; run by test_spine.py."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from proj import celery_app
from shop.models import Order, Stock
from shop.sagas import approved, checkout

from celery_saga.core.ports import RunFilter
from celery_saga.testing import Lab
from contrib_django.saga_database import saga_alias


@pytest.fixture
def order() -> Order:
    Stock.objects.create(item="chair", left=1)
    return Order.objects.create(item="chair", cents=500)


def test_the_app_has_the_sagas_of_every_sagas_module() -> None:
    assert {("djshop_checkout", 1), ("djshop_approved", 1)} <= set(celery_app.saga.registry.known())


@pytest.mark.django_db(transaction=True)
def test_runs_are_kept_in_the_database_of_the_test(order: Order) -> None:
    run = checkout.start(order.pk, 500)

    name = str(connection.settings_dict["NAME"])
    assert saga_alias() == "default"
    assert "test" in name or "memorydb" in name
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM saga_run")
        assert run.id in {str(row[0]) for row in cursor.fetchall()}
    assert [each.id for each in celery_app.saga.store.runs(RunFilter(saga="djshop_checkout"))] == [run.id]


@pytest.mark.django_db
def test_the_lab_in_a_test_that_is_rolled_back(lab: Lab, order: Order) -> None:
    run = checkout.start(order.pk, 500)
    lab.drain()

    assert run.result == f"charge-{order.pk}"
    assert Order.objects.get().status == "paid"
    assert Stock.objects.get().left == 0


@pytest.mark.django_db
def test_nothing_is_left_of_it() -> None:
    assert not Order.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_lab_in_a_test_that_commits(lab: Lab, order: Order) -> None:
    run = lab.start(checkout, order.pk, 200_000)
    lab.drain()

    assert run.status == "failed"
    assert Stock.objects.get().left == 1


@pytest.mark.django_db
def test_the_lab_and_a_wait(lab: Lab, order: Order) -> None:
    run = lab.start(approved, order.pk)
    lab.drain()
    with transaction.atomic():
        run.signal("approval", True)
    lab.drain()

    assert (run.result, Order.objects.get().status) == ("approved", "approved")
