"""The world outside of the shop: a payment gateway and a warehouse, which keep books of their own and make trouble.

Their books are files, one for each order, and not rows of the saga's tables: what they say is what really happened.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass
from enum import StrEnum

from celery_saga.demo.app import folder

__all__ = [
    "Entry",
    "GatewayTimeout",
    "OutOfStock",
    "Trouble",
    "arrange",
    "calls",
    "entries",
    "gateway_charge",
    "gateway_refund",
    "warehouse_dispatch",
    "warehouse_release",
    "warehouse_reserve",
]

_LONGEST_HANG_S = 60.0


class Trouble(StrEnum):
    """What goes wrong with an order."""

    NONE = "none"
    GATEWAY_FLAKY = "gateway_flaky"  # the first two charges get no answer
    GATEWAY_DOWN = "gateway_down"  # no charge gets an answer
    OUT_OF_STOCK = "out_of_stock"  # the warehouse cannot dispatch
    CHARGE_HANGS = "charge_hangs"  # the first charge takes the money and never answers
    RELEASE_HANGS = "release_hangs"  # out of stock, and the first release does not get through


class GatewayTimeout(Exception):
    """The payment gateway did not answer in time."""


class OutOfStock(Exception):
    """The warehouse does not have the goods."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the books.

    Args:
        call: as people say it, like `charge 500`.
        key: the idempotency key that came with it; empty where none did.
        answer: what was answered.
        reached: False: it did not get through, so it is no call.
        hangs: its answer does not arrive.
    """

    call: str
    key: str = ""
    answer: str = ""
    reached: bool = True
    hangs: bool = False


def arrange(order_id: str, trouble: Trouble) -> None:
    """Say what will go wrong with an order; its books are empty afterwards."""
    (folder() / "orders" / f"{order_id}.trouble").write_text(trouble.value)
    (folder() / "orders" / f"{order_id}.jsonl").write_text("")


def entries(order_id: str) -> list[Entry]:
    """The books of an order, in order."""
    books = folder() / "orders" / f"{order_id}.jsonl"
    lines = books.read_text().splitlines() if books.exists() else []
    return [Entry(**json.loads(line)) for line in lines]


def calls(order_id: str) -> list[str]:
    """What reached gateway and warehouse, in order, like `reserve o1`."""
    return [entry.call for entry in entries(order_id) if entry.reached]


# -- the warehouse ---------------------------------------------------------------------------------------------------
def warehouse_reserve(order_id: str) -> None:
    """Put goods aside."""
    _note(order_id, Entry(f"reserve {order_id}"))


def warehouse_release(order_id: str) -> None:
    """Put goods back."""
    if _trouble(order_id) is Trouble.RELEASE_HANGS and all(entry.reached for entry in entries(order_id)):
        _note(order_id, Entry(f"release {order_id}", reached=False, hangs=True))
        _hang()
    _note(order_id, Entry(f"release {order_id}"))


def warehouse_dispatch(order_id: str) -> None:
    """Send goods."""
    if _trouble(order_id) in {Trouble.OUT_OF_STOCK, Trouble.RELEASE_HANGS}:
        _note(order_id, Entry(f"dispatch {order_id}", answer="out of stock"))
        raise OutOfStock(order_id)
    _note(order_id, Entry(f"dispatch {order_id}"))


# -- the gateway -----------------------------------------------------------------------------------------------------
def gateway_charge(key: str, order_id: str, cents: int) -> str:
    """Take money, once for each key; returns the id of the charge."""
    call, trouble = f"charge {cents}", _trouble(order_id)
    earlier = [entry for entry in entries(order_id) if entry.call == call]
    if trouble is Trouble.GATEWAY_DOWN or (trouble is Trouble.GATEWAY_FLAKY and len(earlier) < 2):
        _note(order_id, Entry(call, key, "timeout"))
        raise GatewayTimeout("no answer from the gateway")
    charged = {entry.key: entry.answer for entry in earlier if entry.answer.startswith("ch_")}
    charge_id = charged.get(key) or f"ch_{len(charged) + 1}"
    hangs = trouble is Trouble.CHARGE_HANGS and not earlier
    _note(order_id, Entry(call, key, charge_id, hangs=hangs))
    if hangs:
        _hang()
    return charge_id


def gateway_refund(charge_id: str, order_id: str) -> None:
    """Give money back."""
    _note(order_id, Entry(f"refund {charge_id}"))


def _trouble(order_id: str) -> Trouble:
    return Trouble((folder() / "orders" / f"{order_id}.trouble").read_text())


def _note(order_id: str, entry: Entry) -> None:
    # One write to a file opened for appending: lines of two processes do not mix.
    line = json.dumps(asdict(entry)) + "\n"
    number = os.open(folder() / "orders" / f"{order_id}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(number, line.encode())
    finally:
        os.close(number)


def _hang() -> None:
    # An answer that does not come: the worker is killed while it waits.
    threading.Event().wait(_LONGEST_HANG_S)
