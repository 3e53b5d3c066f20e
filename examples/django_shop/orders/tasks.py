"""Ordinary Celery tasks. Those that write to the shop's own tables do so with Django's ORM."""

from celery import shared_task
from django.db.models import F
from django.utils import timezone

from orders.models import Order, Product


class OutOfStock(Exception):
    """There is not enough on the shelf."""


class PaymentDeclined(Exception):
    """The bank says no."""


class Refused(Exception):
    """A person said no, or nobody said anything in time."""


@shared_task
def open_order(order_id):
    """The order is being worked on."""
    Order.objects.filter(pk=order_id).update(status="in progress")


@shared_task
def close_undone(order_id):
    """Everything done for the order has been taken back."""
    Order.objects.filter(pk=order_id).update(status="undone")


@shared_task
def reserve(order_id):
    """Take the goods from the shelf."""
    order = Order.objects.select_related("product").get(pk=order_id)
    taken = Product.objects.filter(pk=order.product_id, stock__gte=order.quantity)
    if not taken.update(stock=F("stock") - order.quantity):
        raise OutOfStock(f"{order.quantity} of {order.product} are not there")
    return order.quantity


@shared_task
def release(order_id):
    """Put the goods back."""
    order = Order.objects.get(pk=order_id)
    Product.objects.filter(pk=order.product_id).update(stock=F("stock") + order.quantity)


@shared_task
def charge(card, cents, key):
    """Stands in for the bank, which is told `key`: the same key is never charged twice."""
    if card.endswith("0002"):
        raise PaymentDeclined("the bank declined the card")
    return f"charge-{key[:8]}"


@shared_task
def refund(charge_id):
    """Stands in for the bank: give back what was charged."""
    return f"refund of {charge_id}"


@shared_task
def ship(order_id):
    """Stands in for the carrier."""
    return f"parcel-{order_id}"


@shared_task
def close_shipped(order_id, parcel):
    """The order is done."""
    Order.objects.filter(pk=order_id).update(status="shipped", parcel=parcel)


@shared_task
def nearly_sold_out():
    """Which products have fewer than ten pieces left."""
    return list(Product.objects.filter(stock__lt=10).order_by("name").values_list("pk", flat=True))


@shared_task
def fill_up(product_id):
    """Stands in for the supplier: twenty pieces arrive."""
    Product.objects.filter(pk=product_id).update(stock=F("stock") + 20)
    return f"filled up at {timezone.now():%H:%M}"
