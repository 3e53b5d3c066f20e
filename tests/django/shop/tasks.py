"""What is done for orders; ordinary tasks."""

from celery import shared_task
from django.db.models import F
from shop.models import Order, Stock


class PaymentDeclined(Exception):  # noqa: N818
    """The bank says no."""


@shared_task
def reserve(order_id: int) -> int:
    """Take one of the item."""
    order = Order.objects.get(pk=order_id)
    Stock.objects.filter(item=order.item).update(left=F("left") - 1)
    return order_id


@shared_task
def release(order_id: int) -> None:
    """Put it back."""
    order = Order.objects.get(pk=order_id)
    Stock.objects.filter(item=order.item).update(left=F("left") + 1)


@shared_task
def charge(order_id: int, cents: int) -> str:
    """Ask for the money; more than 1000.00 is declined."""
    if cents > 100_000:
        raise PaymentDeclined(order_id)
    return f"charge-{order_id}"


@shared_task
def close(order_id: int, status: str) -> None:
    """Write how the order ended."""
    Order.objects.filter(pk=order_id).update(status=status)
