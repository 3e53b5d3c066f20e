"""The shop's tasks, and its Celery app. A worker needs nothing else: it knows no saga."""

import os

from celery import Celery
from celery_saga import CelerySaga

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
app.conf.broker_connection_retry_on_startup = True
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1/shop"))


@app.task
def charge(order_id, cents):
    """Take the money."""
    return {"charge": f"ch-{order_id}", "cents": cents}


@app.task
def refund(charge):
    """Give it back."""
    print(f"refund {charge['charge']}")


@app.task
def pack(line):
    """Pack one line of the order."""
    if line["sku"] == "rare":
        raise LookupError("there is none left")
    return f"{line['count']} x {line['sku']}"


@app.task
def ship(parcels):
    """Hand the parcels over."""
    return f"shipped {', '.join(parcels)}"
