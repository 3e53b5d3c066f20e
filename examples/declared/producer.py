"""Another service: starts a checkout, approves it, waits for it. `python producer.py ID CENTS`."""

import os
import sys

from celery import Celery
from celery_saga import CelerySaga

from definitions import APPROVAL, Order, checkout

app = Celery("web", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop"))

if __name__ == "__main__":
    order_id, cents = sys.argv[1:]
    run = checkout.start(Order(order_id, int(cents)))
    checkout.find(key=order_id).signal(APPROVAL, True)
    print(run.wait(60), "shop" in sys.modules)
