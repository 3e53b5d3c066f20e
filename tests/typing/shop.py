"""Tasks, payloads and sagas for the type checkers; never run."""

from __future__ import annotations

from dataclasses import dataclass

from celery import shared_task

from celery_saga import Run, Signal, saga


@dataclass(frozen=True)
class Order:
    id: str
    cents: int


@dataclass(frozen=True)
class Receipt:
    charge_id: str


@dataclass(frozen=True)
class Approval:
    approved: bool


APPROVAL = Signal("approval", Approval)
ANYTHING = Signal("anything")


@shared_task
def charge(key: str, cents: int) -> str:
    return f"{key}:{cents}"


@shared_task
def refund(charge_id: str) -> None: ...


@shared_task
def count(charge_id: str) -> int:
    return len(charge_id)


@shared_task
def recount(cents: int) -> None: ...


@saga(key="{order.id}", signals=[APPROVAL], errors=[LookupError])
def checkout(run: Run, order: Order, gift: bool = False) -> Receipt:
    return Receipt(run.step(charge.si(run.idempotency_key("charge"), order.cents), undo=refund))


@saga.declare(name="parcel", signals=[APPROVAL])
def parcel(order: Order, gift: bool = False) -> Receipt:
    raise NotImplementedError


@saga.declare()
def letter(run: Run, pages: int) -> str:
    raise NotImplementedError


@saga
def plain(run: Run) -> int:
    return 1
