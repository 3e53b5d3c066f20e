"""Tasks that real workers serve; they know no graph, and write into a file what they were asked to do."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

from celery_saga import CelerySaga, current_step

app = Celery("graphs-served", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **json.loads(os.environ["SHOP_SETTINGS"]))
CelerySaga(app, lease=3.0, sweep_interval=0.2)
LOG = Path(os.environ["SHOP_LOG"])


def tell(what: str, value: object) -> None:
    """Write one call."""
    with LOG.open("a") as file:
        file.write(json.dumps([current_step.run_id, what, value, current_step.idempotency_key, time.time()]) + "\n")


def calls(run_id: str) -> list[list[Any]]:
    """What was asked for a run, in order: the task, its argument, its idempotency key, when."""
    return [rest for of, *rest in map(json.loads, LOG.read_text().splitlines()) if of == run_id]


@app.task(name="gs.mail")
def mail(given: dict[str, str]) -> dict[str, str]:
    tell("mail", given["to"])
    return {"to": given["to"]}


@app.task(name="gs.charge")
def charge(given: object) -> str:
    tell("charge", given)
    return "ch_1"


@app.task(name="gs.refund")
def refund(charge_id: str) -> None:
    tell("refund", charge_id)


@app.task(name="gs.ship")
def ship(charge_id: str) -> None:
    tell("ship", charge_id)
    raise LookupError("none left")


@app.task(name="gs.double")
def double(item: int) -> int:
    tell("begin", item)
    time.sleep(0.6 if item == 1 else 0.1)
    tell("end", item)
    return item * 2


@app.task(name="gs.branch")
def branch(name: str) -> str:
    if name == "b":
        raise LookupError("no b")
    return name.upper()
