"""What type checkers accept, with the types that they infer; never run."""

# pyright: strict

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

from celery_saga import Collected, Outcome, Retry, Run, RunHandle, Saga, Signal, StepRecord, Winner, step
from tests.typing.shop import (
    ANYTHING,
    APPROVAL,
    Approval,
    Order,
    Receipt,
    charge,
    checkout,
    count,
    letter,
    parcel,
    plain,
    recount,
    refund,
)


def body(run: Run) -> None:
    assert_type(run.step(charge.si("key", 1)), str)
    assert_type(run.step(charge.si("key", 1), undo=refund, retry=Retry(3), timeout=timedelta(minutes=1)), str)
    assert_type(run.step(charge.si("key", 1), undo=refund.s(), undo_unknown="skip"), str)
    assert_type(run.step(step(charge.si("key", 1), undo=refund, name="again")), str)
    assert_type(run.wait_signal(APPROVAL), Approval)
    assert_type(run.wait_signal(APPROVAL, timeout=5, default=Approval(False)), Approval)
    assert_type(run.wait_signal(APPROVAL, timeout=5, default=None), Approval | None)
    assert_type(run.wait_signal("approval", type=Approval), Approval)
    assert_type(run.wait_signal("anything"), Any)
    assert_type(run.wait_signal(ANYTHING), Any)
    assert_type(run.record("flag", lambda: 3), int)
    assert_type(run.child(checkout, Order("o1", 500), gift=True), Receipt)
    assert_type(run.child(checkout.options(priority=3, deadline=60), Order("o1", 500)), Receipt)
    assert_type(run.child(checkout.options(detached=True, key="k"), Order("o1", 500)), RunHandle[Receipt])
    assert_type(run.group(checkout.s(Order("o1", 500)), plain.s()), tuple[Receipt, int])
    run.on_undo(refund.si("ch_1"))
    run.sleep(timedelta(days=1))


def shipped(run: Run, order: Order) -> Receipt:
    return Receipt(run.step(charge.si("key", order.cents)))


def counted(run: Run) -> int:
    return len(run.step(charge.si("key", 1)))


def joins(run: Run, orders: list[Order], by_name: dict[str, Order]) -> None:
    pay, weigh = charge.si("key", 1), count.si("ch_1")
    assert_type(run.group(), tuple[()])
    assert_type(run.group(pay), tuple[str])
    assert_type(run.group(pay, weigh), tuple[str, int])
    assert_type(run.group(pay, counted, checkout.s(orders[0])), tuple[str, int, Receipt])
    assert_type(run.group(step(pay, undo=refund), counted, weigh, pay, concurrency=2), tuple[str, int, int, str])
    assert_type(run.group([checkout.s(order) for order in orders], name="all"), list[Receipt])
    assert_type(run.group({"a": pay, "b": charge.si("key", 2)}), dict[str, str])
    assert_type(run.group([pay], on_failure="collect"), Collected[str])
    assert_type(run.group(weigh, counted, on_failure="collect").outputs, list[int | None])

    assert_type(run.map(count, ["ch_1", "ch_2"]), list[int])
    assert_type(run.map(count, {"a": "ch_1"}, concurrency=10, undo=recount), dict[str, int])
    assert_type(run.map(shipped, orders, retry=Retry(3)), list[Receipt])
    assert_type(run.map(shipped, by_name), dict[str, Receipt])
    assert_type(run.map(letter, range(3)), list[str])
    assert_type(run.map(charge.s(500), ["k1", "k2"], undo=refund), list[str])
    assert_type(run.map(count, ["ch_1"], on_failure="collect"), Collected[int])
    assert_type(run.map(shipped, by_name, on_failure="collect").results[0], Outcome[Receipt])

    assert_type(run.race(approval=APPROVAL, other=Signal("other", Approval)), Winner[Approval])
    assert_type(run.race(approval=APPROVAL, late=3600).value, Approval | None)
    assert_type(run.race(a=pay, b=charge.si("key", 2), late=timedelta(days=1)), Winner[str | None])
    assert_type(run.race(a=weigh, b=counted).name, str)


def client() -> None:
    assert_type(checkout.start(Order("o1", 500)), RunHandle[Receipt])
    assert_type(checkout.start(order=Order("o1", 500), gift=True).wait(5), Receipt)
    assert_type(checkout.options(priority=3, if_exists="raise").start(Order("o1", 500)).result, Receipt | None)
    assert_type(checkout.find(key="o1"), RunHandle[Receipt])
    assert_type(checkout.run_id(Order("o1", 500)), str)
    assert_type(plain, Saga[[], int])
    assert_type(plain.start().steps(), list[StepRecord])
    handle = plain.get("id")
    handle.signal(APPROVAL, Approval(True), id="1")
    handle.signal("approval", {"approved": True})
    handle.signal(ANYTHING, 7)
    handle.signal(APPROVAL, error=LookupError("gone"))


@parcel.handler
def packed(run: Run, order: Order, gift: bool = False) -> Receipt:
    assert_type(run.patched("box"), bool)
    return Receipt(run.step(charge.si("key", order.cents)))


def declared() -> None:
    assert_type(parcel.start(Order("o1", 500), gift=True), RunHandle[Receipt])
    assert_type(packed.find(key="o1").wait(), Receipt)
    assert_type(letter.start(3).result, str | None)
    assert_type([each.until for each in letter.start(3).waiting_on], list[datetime | None])
    assert_type(letter.start(3).progress["pack"].fraction, float | None)


def for_ever(run: Run) -> int:
    run.continue_as_new()


async def asynchronous() -> None:
    assert_type(await (await checkout.start_async(Order("o1", 500))).wait_async(), Receipt)
