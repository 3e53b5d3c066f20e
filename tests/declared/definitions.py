"""What producers import: the definition of a saga, without the modules that its handler needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery_saga import Signal, saga

if TYPE_CHECKING:
    from celery_saga import Run


@dataclass(frozen=True)
class Order:
    """What is ordered."""

    id: str
    cents: int


@dataclass(frozen=True)
class Receipt:
    """What comes of it."""

    charge_id: str


class Declined(Exception):
    """A declared error."""


APPROVAL = Signal("approval", bool)


@saga.declare(name="declared_checkout", key="{order.id}", signals=[APPROVAL], errors=[Declined])
def checkout(order: Order, gift: bool = False) -> Receipt:
    """Charges for an order."""
    raise NotImplementedError


@saga.declare()
def declared_with_run(run: Run, count: int) -> int:
    """A stub may name the run, as the handler does."""
    raise NotImplementedError
