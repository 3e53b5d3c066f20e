"""The app and its tasks, which all three deploys share."""

import os

from celery import Celery
from celery_saga import CelerySaga

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop"))


@app.task
def reserve(order_id):
    return f"held {order_id}"


@app.task
def check(order_id):
    return f"checked {order_id}"


@app.task
def send(order_id):
    return f"sent {order_id}"
