"""Celery tasks that are only ever made signatures of."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from celery import Celery

app = Celery("shop", set_as_current=False)


@dataclass(frozen=True)
class Receipt:
    charge_id: str


class Colour(enum.Enum):
    RED = "red"


class Declined(Exception):
    pass


@app.task(name="shop.charge", shared=False)
def charge(key: str, cents: int = 1) -> str:
    return key


@app.task(name="shop.refund", shared=False)
def refund(charge_id: str) -> None: ...


@app.task(name="shop.refund_any", shared=False)
def refund_any(charge_id: str | None) -> None: ...


@app.task(name="shop.refund_default", shared=False, bind=True)
def refund_default(self, charge_id=None) -> None: ...  # type: ignore[no-untyped-def]


@app.task(name="shop.receipt", shared=False)
def receipt() -> Receipt:
    return Receipt("x")


@app.task(name="shop.colours", shared=False)
def colours() -> list[Colour]:
    return []


@app.task(name="shop.expected", shared=False, throws=(Declined,))
def expected() -> None: ...
