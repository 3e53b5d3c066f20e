"""The shop that the scenarios order from: three services, their undos, and a ledger of what they were asked to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from celery_saga import Retry, Run, Saga, Signal, current_step, saga
from tests.scenarios.house import House


class GatewayTimeout(Exception):
    """The payment gateway did not answer."""


class OutOfStock(Exception):
    """There is none left."""


class Rejected(Exception):
    """A person said no."""


@dataclass
class Shop:
    """Services with a ledger (`calls`) and planned failures (`fail[name]` = how many calls raise)."""

    house: House
    calls: list[str] = field(default_factory=list)
    fail: Counter[str] = field(default_factory=Counter)
    gateway: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        task = self.house.task

        @task("scene_shop.reserve")
        def reserve(order: str) -> None:
            self.note("reserve", order)

        @task("scene_shop.release")
        def release(order: str) -> None:
            self.note("release", order)

        @task("scene_shop.charge")
        def charge(key: str, cents: int) -> str:
            self.gateway[key] += 1
            self.note("charge", cents, GatewayTimeout("no answer"))
            return "ch_1"

        @task("scene_shop.refund")
        def refund(charge_id: str) -> None:
            self.note("refund", charge_id)

        @task("scene_shop.dispatch")
        def dispatch(order: str) -> None:
            self.note("dispatch", order, OutOfStock(order))

        self.reserve, self.release, self.charge, self.refund, self.dispatch = reserve, release, charge, refund, dispatch

    def note(self, name: str, what: object, error: Exception | None = None) -> None:
        self.calls.append(f"{name} {what}")
        if error is not None and self.fail[name] > 0:
            self.fail[name] -= 1
            raise error

    def checkout(self, **options: Any) -> Saga[Any, Any]:
        """The checkout saga over these services."""

        @saga(
            name="checkout",
            key="{order_id}",
            errors=[GatewayTimeout, OutOfStock, Rejected],
            signals=[Signal("approval", bool)],
            **options,
        )
        def checkout(run: Run, order_id: str, cents: int) -> dict[str, str]:
            run.step(self.reserve.si(order_id), undo=self.release.si(order_id))
            if cents > 100_000 and not run.wait_signal("approval", type=bool):
                raise Rejected(order_id)
            charge_id = run.step(
                self.charge.si(run.idempotency_key("charge"), cents),
                undo=self.refund,
                retry=Retry(max_attempts=3, delay=0, on=[GatewayTimeout]),
            )
            run.step(self.dispatch.si(order_id))
            return {"chargeId": charge_id}

        return checkout


def in_step() -> str:
    """The idempotency key of the step that calls this."""
    return current_step.idempotency_key
