"""The steps' tasks: each leaves one row in the ledger and may break before or after it."""

from __future__ import annotations

from celery import shared_task

from tests.faults import points
from tests.faults.points import Refused


@shared_task(name="faults.do")
def do(order: str = "no order") -> str:
    points.effect(order)
    return f"done {order}"


@shared_task(name="faults.undo")
def undo(order: str = "no order") -> None:
    points.effect(order)


@shared_task(name="faults.stubborn", autoretry_for=(Exception,), max_retries=3, default_retry_delay=0)
def stubborn(order: str = "no order") -> None:
    """Always raises, and its decorator catches all, also Celery's own Retry."""
    points.effect(order)
    raise Refused(order)
