"""The workers of the shop: the tasks, and the body of the saga that they execute."""

import os

from celery import Celery
from celery_saga import CelerySaga, Run

from definitions import APPROVAL, Declined, Order, checkout

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop"))


@app.task
def charge(order_id: str, cents: int) -> str:
    return f"ch-{order_id}-{cents}"


@checkout.handler
def handle_checkout(run: Run, order: Order) -> str:
    if not run.wait_signal(APPROVAL):
        raise Declined(order.id)
    return run.step(charge.si(order.id, order.cents))
