"""The app that the workers, the client and Flower itself load."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

from celery_saga import CelerySaga, Retry, Run, Signal, current_step, saga, step

settings: dict[str, Any] = json.loads(os.environ["SHOP_SETTINGS"])
log = Path(os.environ["SHOP_LOG"])

app = Celery("flower_shop", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, task_default_queue="shop", **settings)
CelerySaga(app, lease=5.0, sweep_interval=0.1)


class OutOfStock(Exception):
    """Nothing left."""


GO = Signal("go", str)


@app.task(name="flower.reserve")
def reserve(order: str) -> str:
    return f"secret of {order}"


@app.task(name="flower.release")
def release(reservation: str) -> None:
    """Wait for whoever tests, where the order is held."""
    gate = log.with_name("gate")
    while "held" in reservation and not gate.exists():
        time.sleep(0.02)


@app.task(name="flower.ship")
def ship(order: str) -> str:
    if "none" in order:
        raise OutOfStock(f"secret of {order}")
    return "shipped"


@app.task(name="flower.flaky")
def flaky() -> int:
    if current_step.attempt < 3:
        raise OutOfStock("secret")
    return current_step.attempt


@saga(name="flower-order", key="{order}", errors=[OutOfStock])
def order(run: Run, order: str) -> str:
    run.step(reserve.si(order), undo=release)
    return run.step(ship.si(order))


@saga(name="flower-inline", errors=[OutOfStock], dispatch="inline")
def inline(run: Run, order: str) -> str:
    run.step(reserve.si(order), undo=release)
    return run.step(ship.si(order))


@saga(name="flower-approval", signals=[GO])
def approval(run: Run) -> str:
    run.step(reserve.si("a"))
    word = run.wait_signal(GO)
    run.step(ship.si(word))
    return word


@saga(name="flower-flaky", errors=[OutOfStock])
def retried(run: Run) -> int:
    return run.step(step(flaky.si(), retry=Retry(max_attempts=3, delay=0.1)))


@saga(name="flower-empty")
def empty(run: Run) -> None:
    """Nothing to do."""
