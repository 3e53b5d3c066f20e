"""An app as people have it, whose canvases are made durable: what workers and clients of these tests load."""

from __future__ import annotations

import json
import os
from pathlib import Path

from celery import Celery

from celery_saga import CelerySaga

log = Path(os.environ["SHOP_LOG"])

app = Celery("bakery", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **json.loads(os.environ["SHOP_SETTINGS"]))
CelerySaga(app, lease=2.0, sweep_interval=0.2)


def tell(*words: object) -> None:
    """One line in the log that the test reads."""
    with log.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@app.task(name="bakery.knead")
def knead(loaves: int, flour: str = "rye") -> list[str]:
    tell("knead", loaves, flour)
    return [f"{flour} {n}" for n in range(loaves)]


@app.task(name="bakery.bake")
def bake(loaf: str) -> str:
    tell("bake", loaf)
    return f"baked {loaf}"


@app.task(name="bakery.deliver")
def deliver(loaves: list[str], to: str) -> str:
    tell("deliver", len(loaves), to)
    if to == "nowhere":
        raise LookupError(to)
    return f"{len(loaves)} to {to}"


@app.task(name="bakery.give_away")
def give_away(loaves: list[str]) -> None:
    tell("give away", len(loaves))
