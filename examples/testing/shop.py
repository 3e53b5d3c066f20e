"""An order in three steps, and fakes of the services that it calls."""

from __future__ import annotations

from datetime import timedelta

from celery import Celery
from celery_saga import CelerySaga, Retry, Run, Signal, saga

app = Celery("shop")
CelerySaga(app, database_url="postgresql://shop@db/shop")  # where it runs; a test never asks it


class OutOfStock(Exception):
    """None left."""


class GatewayTimeout(Exception):
    """The gateway does not answer."""


class Rejected(Exception):
    """A person said no."""


class Warehouse:
    """Holds things for orders. To hold one twice is to hold it once."""

    held: set[str] = set()
    sent: set[str] = set()


class Gateway:
    """Takes each key for one payment, however often it comes."""

    paid: dict[str, int] = {}


warehouse, gateway = Warehouse(), Gateway()


@app.task
def reserve(order_id: str) -> None:
    warehouse.held.add(order_id)


@app.task
def release(order_id: str) -> None:
    warehouse.held.discard(order_id)


@app.task
def charge(key: str, cents: int) -> str:
    gateway.paid[key] = cents
    return f"payment-{cents}"


@app.task
def refund(payment: str | None, key: str) -> None:
    gateway.paid.pop(key, None)


@app.task
def dispatch(order_id: str) -> None:
    warehouse.sent.add(order_id)


@app.task
def call_back(order_id: str) -> None:
    warehouse.sent.discard(order_id)


APPROVAL = Signal("approval", bool)


@saga(key="{order_id}", errors=[OutOfStock, GatewayTimeout, Rejected], signals=[APPROVAL])
def checkout(run: Run, order_id: str, cents: int) -> str:
    run.step(reserve.si(order_id), undo=release.si(order_id))
    if cents > 100_000 and not run.wait_signal(APPROVAL, timeout=timedelta(days=2), default=False):
        raise Rejected(order_id)
    key = run.idempotency_key("charge")
    payment = run.step(
        charge.si(key, cents),
        undo=refund.s(key),
        retry=Retry(max_attempts=3, delay=10, on=[GatewayTimeout]),
    )
    run.step(dispatch.si(order_id), undo=call_back.si(order_id))
    return payment


@saga(key="{order_id}")
def hasty(run: Run, order_id: str) -> None:
    """As `checkout`, in a hurry: nobody releases what is reserved."""
    run.step(reserve.si(order_id))
    run.step(dispatch.si(order_id), undo=call_back.si(order_id))
