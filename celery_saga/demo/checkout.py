"""The checkout as a saga: reserve, have large orders approved, charge, dispatch; and back again if it cannot end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from celery_saga import Retry, Run, Signal, saga
from celery_saga.demo.tasks import charge, dispatch, refund, release, reserve
from celery_saga.demo.world import GatewayTimeout, OutOfStock

__all__ = ["APPROVAL", "Approval", "Order", "Receipt", "Rejected", "checkout"]


@dataclass(frozen=True)
class Order:
    """What is bought."""

    id: str
    cents: int


@dataclass(frozen=True)
class Approval:
    """What a person says about a large order."""

    approved: bool
    by: str = ""


@dataclass(frozen=True)
class Receipt:
    """What the buyer gets."""

    charge_id: str


class Rejected(Exception):
    """A person did not approve the order."""


APPROVAL = Signal("approval", Approval)
NO_ANSWER = Approval(approved=False)


@saga(
    name="demo_checkout",
    key="{order.id}",
    signals=[APPROVAL],
    errors=[GatewayTimeout, OutOfStock, Rejected],
)
def checkout(run: Run, order: Order) -> Receipt:
    """Sell an order."""
    run.step(reserve.si(order.id), undo=release.si(order.id))
    if order.cents > 100_000:
        answer = run.wait_signal(APPROVAL, timeout=timedelta(days=2), default=NO_ANSWER)
        if not answer.approved:
            raise Rejected(order.id)
    charge_id = run.step(
        charge.si(run.idempotency_key("charge"), order.id, order.cents),
        undo=refund.s(order.id),
        retry=Retry(max_attempts=3, on=[GatewayTimeout], delay=0.2, jitter=False),
    )
    run.step(dispatch.si(order.id))
    return Receipt(charge_id)
