"""A Django project in one file, with sagas in its database: `python -m tests.transactional.django_shop URL`.

Prints what the test compares, one word a line. A process of its own, because Django is configured once.
"""

from __future__ import annotations

import sys
from typing import Any

import django
from celery import Celery
from django.conf import settings
from sqlalchemy import make_url

from celery_saga import CelerySaga, Retry, Run, RunNotFound, current_step, saga
from celery_saga.runtime.transactional import use_transactions
from celery_saga.store import SqlStore, in_transaction_of

url = make_url(sys.argv[1])
kind = "sqlite3" if url.get_backend_name() == "sqlite" else url.get_backend_name()
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": f"django.db.backends.{kind}",
            "NAME": url.database,
            "HOST": url.host or "",
            "PORT": url.port or "",
            "USER": url.username or "",
            "PASSWORD": url.password or "",
        }
    },
    USE_TZ=True,
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402 - Django is configured now


class Payment(models.Model):
    """A row of the project's own."""

    word = models.CharField(max_length=50)

    class Meta:
        app_label = "shop"


def djangos(store: SqlStore) -> Any:
    """A transaction of Django's on its own connection."""
    return in_transaction_of(
        store,
        connection,
        transaction.atomic(durable=True),
        is_open=lambda: connection.in_atomic_block and not connection.needs_rollback,
    )


app = Celery("django-shop")
app.conf.update(task_always_eager=True)
sagas = CelerySaga(app, database_url=sys.argv[1])
sagas.migrate()
use_transactions(app, djangos)


@app.task(name="django_shop.pay")
def pay(word: str) -> str:
    Payment.objects.create(word=f"{word} {current_step.attempt}")
    if current_step.attempt == 1:
        raise KeyError("again")
    if connection.vendor == "postgresql" and not conflicts:
        conflicts.append(word)
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
    return word


@saga(name="django-sale", key="{word}")
def sale(run: Run, word: str) -> str:
    return str(run.step(pay.si(word), transactional=True, retry=Retry(2, delay=0)))


conflicts: list[str] = []


def words() -> Any:
    return list(Payment.objects.order_by("id").values_list("word", flat=True))


def main() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Payment)

    print(sale.start("direct").result, words())

    with transaction.atomic():
        Payment.objects.create(word="order")
        run = sale.options(connection=connection).start("inside")
        print(run.status, sagas.store.load(run.id) is None)
    print(run.status, words())

    try:
        with transaction.atomic():
            lost = sale.options(connection=connection).start("lost")
            with transaction.atomic():
                lost.cancel()
            raise KeyError("rolled back")
    except KeyError:
        print(sagas.store.load(lost.id) is None)
    try:
        print(lost.status)
    except RunNotFound:
        print("not found")


if __name__ == "__main__":
    main()
