"""The sagas of the bazaar."""

from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Literal

from bazaar.tasks import (
    GatewayTimeout,
    OutOfStock,
    PaymentDeclined,
    book_courier,
    cancel_courier,
    charge_card,
    print_label,
    refund_card,
    release_stock,
    reserve_stock,
    send_receipt,
)
from pydantic import BaseModel, Field

from celery_saga import Retry, Run, Signal, saga


class Shipping(Enum):
    """How it is sent."""

    STANDARD = "standard"
    EXPRESS = "express"


class Order(BaseModel):
    """What was ordered."""

    id: str = Field(min_length=1, max_length=40)
    cents: int = Field(ge=1, description="Price in cents.")
    address: str = Field(max_length=120)
    shipping: Shipping = Shipping.STANDARD


class Approval(BaseModel):
    """What a person says of an order."""

    approved: bool
    limit: int = Field(ge=0, description="Up to how many cents.")
    remark: str = Field(default="", max_length=200)


APPROVAL = Signal("approval", Approval)
RESTOCKED = Signal("restocked", int)


class Rejected(Exception):
    """A person has said no."""


ERRORS = [PaymentDeclined, OutOfStock, GatewayTimeout, Rejected]


@saga(name="checkout", key="{order.id}", signals=[APPROVAL, RESTOCKED], errors=ERRORS)
def checkout(run: Run, order: Order, gift: bool = False) -> str:
    """Sell an order: reserve, have large ones approved, charge, ship, tell the customer."""
    run.step(reserve_stock.si(order.id), undo=release_stock)
    if order.cents > 100_000 and not run.wait_signal(APPROVAL, timeout=timedelta(days=2)).approved:
        raise Rejected(f"order {order.id} was not approved")
    charge = run.step(
        charge_card.si(run.idempotency_key("charge_card"), order.cents),
        undo=refund_card.s(),
        retry=Retry(max_attempts=4, delay=0.2, jitter=False),
        undo_retry=Retry(max_attempts=2, delay=0, jitter=False),
    )
    run.step(book_courier.si(order.id, order.address), undo=cancel_courier, retry=Retry(max_attempts=1))
    run.step(send_receipt.si(order.id))
    return charge["charge"]


@saga(name="labels", key="{batch}")
def labels(run: Run, batch: str, count: int) -> int:
    """Print the labels of a batch."""
    return len(run.map(print_label, list(range(count))))


@saga(name="payout", key="{month}-{account}")
def payout(
    run: Run,
    account: str,
    month: date,
    amount: Decimal,
    currency: Literal["EUR", "USD", "JPY"] = "EUR",
    urgent: bool = False,
    lines: list[dict[str, int]] | None = None,
) -> None:
    """Pay a merchant what was sold in a month."""
    run.step(send_receipt.si(account))


@saga(name="season", key="{name}")
def season(run: Run, name: str) -> None:
    """Sell a whole season's first order."""
    run.step(reserve_stock.si(name), undo=release_stock)
    run.child(labels, f"{name}-labels", 3)
    raise RuntimeError("the body has a bug")
