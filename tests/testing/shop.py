"""A shop as a user of the library has it: tasks, fakes of the services behind them, a saga."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from celery import Celery, Task

from celery_saga import Retry, Run, Signal, current_step, saga

app = Celery("lab_shop", set_as_current=False)
app.conf.update(broker_url="amqp://nobody.invalid//", task_always_eager=False)


class GatewayTimeout(Exception):
    """The gateway does not answer."""


class OutOfStock(Exception):
    """None left."""


class Rejected(Exception):
    """A person said no."""


class World:
    """Warehouse and gateway: idempotent, as services that are called by sagas should be."""

    def __init__(self) -> None:
        self.stock: set[str] = set()
        self.charged: dict[str, int] = {}
        self.refunded: list[str | None] = []
        self.sent: list[str] = []
        self.keys: Counter[str] = Counter()
        self.notes: list[Any] = []

    def money(self) -> int:
        """Cents that the customers have paid."""
        return sum(self.charged.values())

    def ledger(self) -> tuple[int, int]:
        """Cents paid and things held."""
        return self.money(), len(self.stock)


world = World()


@app.task(name="lab_shop.reserve", shared=False)
def reserve(order: str) -> str:
    world.stock.add(order)
    return order


@app.task(name="lab_shop.release", shared=False)
def release(order: str | None) -> None:
    world.stock.discard(str(order))


@app.task(name="lab_shop.charge", shared=False)
def charge(key: str, cents: int) -> str:
    world.keys[key] += 1
    world.charged[key] = cents
    return "ch_1"


@app.task(name="lab_shop.refund", shared=False)
def refund(charge_id: str | None, key: str) -> None:
    world.refunded.append(charge_id)
    world.charged.pop(key, None)


@app.task(name="lab_shop.dispatch", shared=False)
def dispatch(order: str) -> None:
    world.sent.append(order)


@app.task(name="lab_shop.flaky", shared=False, bind=True, autoretry_for=(GatewayTimeout,), max_retries=2)
def flaky(self: Task, order: str) -> int:
    world.notes.append((self.request.retries, current_step.attempt, current_step.idempotency_key))
    return int(self.request.retries)


@app.task(name="lab_shop.asks", shared=False, bind=True, max_retries=5)
def asks(self: Task, number: int) -> int:
    if number < 3:
        raise self.retry(args=(number + 1,), countdown=60)
    return number


APPROVAL = Signal("approval", bool)


@saga(
    name="lab_checkout",
    key="{order}",
    errors=[GatewayTimeout, OutOfStock, Rejected],
    signals=[APPROVAL],
)
def checkout(run: Run, order: str, cents: int) -> str:
    run.step(reserve.si(order), undo=release.si(order))
    if cents > 100_000 and not run.wait_signal(APPROVAL, timeout=timedelta(days=2), default=False):
        raise Rejected(order)
    key = run.idempotency_key("charge")
    charge_id = run.step(
        charge.si(key, cents),
        undo=refund.s(key),
        retry=Retry(max_attempts=3, delay=10, on=[GatewayTimeout]),
    )
    run.step(dispatch.si(order))
    return charge_id
