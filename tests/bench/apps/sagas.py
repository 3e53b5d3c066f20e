"""An app whose one task does nothing but say when, with the sagas that are measured."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_ready

from celery_saga import CelerySaga, Run, Signal, current_step, saga

settings: dict[str, Any] = json.loads(os.environ["SHOP_SETTINGS"])

app = Celery("bench", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **settings)
CelerySaga(app)


@worker_ready.connect
def tell_ready(**_: object) -> None:
    """What the measurement waits for: a worker at WARNING says nothing of it."""
    print("the worker is ready.", flush=True)


@app.task(name="bench.nothing", shared=False)
def nothing() -> None:
    """As the task of the chains."""


@app.task(name="bench.tick", shared=False)
def tick() -> float:
    """When it was executed, in seconds of the machine's monotonic clock."""
    return time.monotonic()


def _nothings(run: Run, steps: int) -> None:
    for _ in range(steps):
        run.step(nothing.si())


by_broker = saga(name="bench-by-broker", dispatch="broker")(_nothings)
inline = saga(name="bench-inline", dispatch="inline")(_nothings)


def _ticks(run: Run, steps: int) -> int:
    for _ in range(steps):
        run.step(tick.si())
    return steps


ticks_inline = saga(name="bench-ticks-inline", dispatch="inline")(_ticks)
ticks_by_broker = saga(name="bench-ticks-by-broker", dispatch="broker")(_ticks)


@saga(name="bench-one")
def one(run: Run) -> None:
    """A single step, by the broker."""
    run.step(nothing.si())


@saga(name="bench-one-inline", dispatch="inline")
def one_inline(run: Run) -> None:
    """The same, by whoever coordinates the run."""
    run.step(nothing.si())


GO = Signal("go")


@saga(name="bench-signalled", signals=[GO])
def signalled(run: Run) -> float:
    """When the step behind the signal was executed."""
    run.wait_signal(GO)
    return run.step(tick.si())


@app.task(name="bench.clock", shared=False)
def clock() -> float:
    """When it was executed, in seconds since 1970."""
    return time.time()


@saga(name="bench-sleeping")
def sleeping(run: Run, until: datetime) -> float:
    """When the step behind the sleep was executed."""
    run.sleep_until(until)
    return run.step(clock.si())


@app.task(name="bench.hang", shared=False)
def hang() -> float:
    """The first attempt says which process it is in, and never ends; the second says when it began."""
    if current_step.attempt == 1:
        with Path(os.environ["SHOP_LOG"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
        threading.Event().wait()
    return time.monotonic()


@saga(name="bench-hanging")
def hanging(run: Run) -> float:
    """When the second attempt began."""
    return run.step(hang.si())
