"""Tests of the shop as its own people write them, for Django's runner."""

from django.db import connection
from django.test import TestCase, TransactionTestCase
from shop.models import Order, Stock
from shop.sagas import checkout

from celery_saga.testing import Lab


class Checkout(TestCase):
    def setUp(self) -> None:
        Stock.objects.create(item="chair", left=1)
        self.order = Order.objects.create(item="chair", cents=500)

    def test_it_pays(self) -> None:
        with Lab() as lab:
            run = lab.start(checkout, self.order.pk, 500)
            lab.drain()

        assert run.status == "completed"
        assert Order.objects.get().status == "paid"

    def test_it_puts_back_what_cannot_be_paid(self) -> None:
        with Lab() as lab:
            run = lab.start(checkout, self.order.pk, 500_000)
            lab.drain()

        assert run.status == "failed"
        assert Stock.objects.get().left == 1


class Kept(TransactionTestCase):
    def test_runs_are_in_the_database_of_the_test(self) -> None:
        run = checkout.start(1, 5)

        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM saga_run")
            assert cursor.fetchone() == (1,)
        assert run.refresh().key == "1"
        assert any(word in connection.settings_dict["NAME"] for word in ("test", "memory"))


class KeptElsewhere(TransactionTestCase):
    def test_and_in_no_other(self) -> None:
        checkout.start(1, 5)

        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM saga_run")
            assert cursor.fetchone() == (1,)
