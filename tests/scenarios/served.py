"""The scenarios' sagas as an app that real workers serve; its tasks write into a file what they were asked to do."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery import Celery

from celery_saga import CelerySaga, Retry, Run, Signal, current_step, saga, step

app = Celery("served", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **json.loads(os.environ["SHOP_SETTINGS"]))
CelerySaga(app, lease=3.0, sweep_interval=0.2)
LOG = Path(os.environ["SHOP_LOG"])


class GatewayTimeout(Exception):
    """The payment gateway did not answer."""


class OutOfStock(Exception):
    """There is none left."""


class Rejected(Exception):
    """A person said no."""


def tell(order: str, what: str) -> int:
    """Write one call of an order; how often this call was written before."""
    before = calls(order).count(what)
    key = current_step.idempotency_key if current_step else ""
    with LOG.open("a") as file:
        file.write(json.dumps([order, what, key]) + "\n")
    return before


def calls(order: str) -> list[str]:
    """What was asked for an order, in order."""
    return [what for of, what, _ in map(json.loads, LOG.read_text().splitlines()) if of == order]


def keys(order: str, what: str) -> set[str]:
    """The idempotency keys under which that was asked."""
    return {key for of, said, key in map(json.loads, LOG.read_text().splitlines()) if (of, said) == (order, what)}


@app.task(name="served.reserve")
def reserve(order: str) -> None:
    tell(order, f"reserve {order}")


@app.task(name="served.release")
def release(order: str) -> None:
    tell(order, f"release {order}")


@app.task(name="served.charge")
def charge(order: str, cents: int) -> str:
    before = tell(order, f"charge {cents}")
    if order.startswith("down") or (order.startswith("flaky") and before < 2):
        raise GatewayTimeout("no answer")
    return "ch_1"


@app.task(name="served.refund")
def refund(charge_id: str) -> None:
    tell(str(current_step.run_key), f"refund {charge_id}")


@app.task(name="served.dispatch")
def dispatch(order: str) -> None:
    tell(order, f"dispatch {order}")
    if order.startswith("none"):
        raise OutOfStock(order)


@app.task(name="served.say")
def say(order: str, what: str, failures: int = 0) -> str:
    """Tell, and fail that often before it succeeds."""
    if tell(order, what) < failures:
        raise RuntimeError("flaky")
    return what


APPROVAL = Signal("approval", bool)


@saga(name="served-checkout", key="{order}", errors=[GatewayTimeout, OutOfStock, Rejected], signals=[APPROVAL])
def checkout(run: Run, order: str, cents: int) -> dict[str, str]:
    run.step(reserve.si(order), undo=release.si(order))
    if cents > 100_000 and not run.wait_signal(APPROVAL):
        raise Rejected(order)
    retry = Retry(max_attempts=3, delay=0, on=[GatewayTimeout])
    charge_id = run.step(charge.si(order, cents), undo=refund, retry=retry)
    run.step(dispatch.si(order))
    return {"chargeId": charge_id}


@saga(name="served-approve", key="{order}")
def approve(run: Run, order: str) -> dict[str, str]:
    return {"approvedBy": run.wait_signal("approve", timeout=timedelta(days=7))["by"]}


@saga(name="served-long-wait", key="{order}")
def long_wait(run: Run, order: str) -> None:
    run.sleep(timedelta(days=1))
    run.step(say.si(order, "later"))


@saga(name="served-twice", key="{order}", retry=Retry(max_attempts=3, delay=0))
def twice(run: Run, order: str) -> dict[str, str]:
    return {"a": run.step(say.si(order, "one")), "b": run.step(say.si(order, "two", 1))}


@saga(name="served-stubborn", key="{order}", retry=Retry(max_attempts=10, delay=0), errors=[LookupError])
def stubborn(run: Run, order: str) -> None:
    for name in ("x", "y", "z"):
        run.step(say.si(order, name))
    tell(order, "body")
    raise LookupError("always")


@saga(name="served-once", key="{order}")
def once(run: Run, order: str) -> None:
    run.step(say.si(order, "once", 9))


@saga(name="served-nap", key="{order}")
def nap(run: Run, order: str) -> str:
    run.sleep(0.4)
    return str(run.step(say.si(order, "awake")))


@saga(name="served-rich", key="{order}")
def rich(run: Run, order: str, data: dict[str, Any]) -> dict[str, Any]:
    run.step(say.si(order, "looked"))
    return {**data, "total": data["n"] + 7}


@saga(name="served-versioned", key="{order}", version=1)
def first_version(run: Run, order: str) -> str:
    run.wait_signal("go")
    return str(run.step(say.si(order, "old")))


@saga(name="served-versioned", key="{order}", version=2)
def second_version(run: Run, order: str) -> str:
    run.wait_signal("go")
    return str(run.step(say.si(order, "new")))


@saga(name="served-careful", key="{order}", on_failure="suspend")
def careful(run: Run, order: str) -> str:
    run.step(say.si(order, "a"), undo=say.si(order, "undo a"))
    return str(run.step(say.si(order, "b", 1)))


@app.task(name="served.double")
def double(order: str, number: int, pause_s: float) -> int:
    tell(order, f"begin {number}")
    time.sleep(pause_s)  # a task that is slow: the slowest item is the first
    tell(order, f"end {number}")
    return 2 * number


@saga(name="served-bounded")
def bounded(run: Run, order: str) -> list[int]:
    def item(run: Run, number: int) -> int:
        return run.step(double.si(order, number, 0.5 if number == 1 else 0.0))

    return list(run.map(item, [1, 2, 3], concurrency=2))


@saga(name="served-branches", errors=[OutOfStock])
def branches(run: Run, order: str) -> Any:
    got = run.group(
        {"a": reserve.si(order), "b": dispatch.si(f"none {order}"), "c": lambda run: run.step(charge.si(order, 3))},
        on_failure="collect",
    )
    return [got.succeeded, got.failed, [each.name for each in got.results]]


GO = Signal("go", str)


@saga(name="served-race", errors=[OutOfStock])
def race(run: Run, order: str, *, signal: bool) -> str:
    if signal:
        won = run.race(signal=GO, activity=30)
    else:
        won = run.race(fast=dispatch.si(f"none {order}"), slow=charge.si(order, 1))
    run.step(reserve.si(order))
    return f"{won.name} {won.value}"


@saga(name="served-undone", key="{order}", errors=[OutOfStock])
def undone(run: Run, order: str) -> None:
    def part(run: Run) -> None:
        run.step(reserve.si(order), undo=release.si(order))
        run.step(dispatch.si(f"none {order}"))

    run.group(part, step(charge.si(order, 5), undo=refund))


@saga(name="served-parcel", errors=[OutOfStock])
def parcel(run: Run, order: str, waits: bool) -> str:
    run.step(say.si(order, "pack"), undo=say.si(order, "unpack"))
    if waits:
        run.wait_signal("pickup")
    return str(run.step(say.si(order, "label"), undo=say.si(order, "tear")))


@saga(name="served-family", key="{order}", errors=[OutOfStock])
def family(run: Run, order: str, waits: bool = False) -> list[str]:
    run.step(say.si(order, "pay"), undo=say.si(order, "repay"))
    first = run.child(parcel, order, False)
    second = run.group(parcel.s(order, waits), say.si(order, "thanks"))
    run.step(dispatch.si(order))
    return [first, *second]
