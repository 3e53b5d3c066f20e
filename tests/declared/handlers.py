"""What workers import: the body of the declared saga, and its tasks."""

from __future__ import annotations

from celery import shared_task

from celery_saga import Run
from tests.declared import definitions
from tests.declared.definitions import APPROVAL, Declined, Order, Receipt


@shared_task(name="declared.charge")
def charge(order_id: str, cents: int) -> str:
    """The step."""
    return f"ch_{order_id}_{cents}"


@definitions.checkout.handler
def checkout(run: Run, order: Order, gift: bool = False) -> Receipt:
    """The body."""
    if not run.wait_signal(APPROVAL):
        raise Declined(order.id)
    return Receipt(run.step(charge.si(order.id, order.cents)))
