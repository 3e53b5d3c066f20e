"""The shop's tasks: ordinary Celery tasks, which know nothing of sagas."""

from __future__ import annotations

from celery import shared_task

from celery_saga.demo import world

__all__ = ["charge", "dispatch", "refund", "release", "reserve"]


@shared_task(name="demo_shop.reserve")
def reserve(order_id: str) -> None:
    """Put the order's goods aside."""
    world.warehouse_reserve(order_id)


@shared_task(name="demo_shop.release")
def release(order_id: str) -> None:
    """Put the goods back."""
    world.warehouse_release(order_id)


@shared_task(name="demo_shop.charge")
def charge(key: str, order_id: str, cents: int) -> str:
    """Take the money; returns the id of the charge. With the same key it is taken once."""
    return world.gateway_charge(key, order_id, cents)


@shared_task(name="demo_shop.refund")
def refund(charge_id: str, order_id: str) -> None:
    """Give the money back."""
    world.gateway_refund(charge_id, order_id)


@shared_task(name="demo_shop.dispatch")
def dispatch(order_id: str) -> None:
    """Send the goods."""
    world.warehouse_dispatch(order_id)
