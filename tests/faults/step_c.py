"""The module of one step, which a worker of an older deploy does not have."""

from __future__ import annotations

from celery import shared_task

from tests.faults import points


@shared_task(name="faults.c")
def c(order: str = "no order") -> str:
    points.effect(order)
    return f"c {order}"
