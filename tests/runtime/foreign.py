"""A worker's app without celery_saga: it knows nothing of sagas, and shares the queue."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from celery import Celery

settings: dict[str, Any] = json.loads(os.environ["SHOP_SETTINGS"])
log = Path(os.environ["SHOP_LOG"])
app = Celery("foreign")
app.conf.update(
    broker_connection_retry_on_startup=True, **{k: v for k, v in settings.items() if not k.startswith("saga_")}
)


def tell(*words: object) -> None:
    with log.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@app.task(name="foreign.shout")
def shout(word: str) -> str:
    tell("shout", word)
    if word == "bad":
        raise ValueError("no shouting")
    if word == "die":
        os._exit(9)
    return word.upper()


# The names of the shop, with the wrong hands: each call is told, none must come.
for _name in ("shop.reserve", "shop.charge", "shop.dispatch", "shop.release", "shop.refund"):

    @app.task(name=_name, bind=True)
    def stolen(self: Any, *args: Any, **kwargs: Any) -> None:
        tell("STOLEN", self.name, args, kwargs)
