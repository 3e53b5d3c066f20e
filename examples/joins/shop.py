"""Ships orders of several parcels: tasks and saga. What the worker runs."""

import os

from celery import Celery
from celery_saga import CelerySaga, Retry, Run, Signal, saga, step

app = Celery("shop", broker=os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0"))
app.conf.broker_connection_retry_on_startup = True
CelerySaga(app, database_url=os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/shop"))

PICKED_UP = Signal("picked_up", str)
PATIENCE_S = 5  # days, in a shop that is no example


class OutOfStock(Exception):
    """There is nothing of this on the shelf."""


@app.task
def pack(item: str) -> str:
    if item == "unicorn":
        raise OutOfStock(item)
    return f"box of {item}"


@app.task
def unpack(box: str) -> None:
    print(f"back on the shelf: {box}")


@app.task
def label(box: str) -> str:
    return f"label on {box}"


@app.task
def invoice(number: str, parcels: int) -> str:
    return f"invoice {number} for {parcels}"


@app.task
def mail(number: str, text: str) -> None:
    print(f"order {number}: {text}")


def parcel(run: Run, item: str) -> str:
    """Pack and label one item: one after the other, while other items are packed beside it."""
    return run.step(label.si(run.step(pack.si(item), undo=unpack)))


@saga(key="{number}", signals=[PICKED_UP], errors=[OutOfStock])
def ship(run: Run, number: str, items: list[str]) -> str:
    labels = run.map(parcel, items, concurrency=2, name="parcels")
    bill, _ = run.group(
        step(invoice.si(number, len(labels)), retry=Retry(max_attempts=5)),
        mail.si(number, "packed"),
        name="papers",
    )
    fetched = run.race(carrier=PICKED_UP, late=PATIENCE_S)
    if fetched.name == "late":
        run.step(mail.si(number, "still waits for you"))
    return f"{bill}, {fetched.value or 'not'} fetched"
