"""What the team of the shop publishes: how its saga is called, what it takes, what it gives. No task, no body."""

from dataclasses import dataclass

from celery_saga import Signal, saga


@dataclass(frozen=True)
class Order:
    id: str
    cents: int


APPROVAL = Signal("approval", bool)


class Declined(Exception):
    pass


@saga.declare(name="checkout", key="{order.id}", signals=[APPROVAL], errors=[Declined])
def checkout(order: Order) -> str:
    raise NotImplementedError
