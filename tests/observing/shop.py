"""An app whose processes write what they log, trace and count: what the workers of these tests load."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task, signals

from celery_saga import CelerySaga, Retry, Run, SagaLogFilter, Signal, current_step, saga
from tests.observing import sdk

settings: dict[str, Any] = json.loads(os.environ["SHOP_SETTINGS"])
log = Path(os.environ["SHOP_LOG"])
told = logging.getLogger("tel.user")

app = Celery("observing", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **settings)
CelerySaga(app, lease=2.0, sweep_interval=0.2)
if collector := os.environ.get("SHOP_COLLECTOR"):
    sdk.connect(collector, instrumented="bare" not in os.environ.get("SHOP_MODE", ""))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        names = ("levelname", "name", "saga_run", "saga_name", "saga_step", "saga_attempt")
        return json.dumps({**{name: getattr(record, name) for name in names}, "text": record.getMessage()})


@signals.after_setup_logger.connect
def _write_records(logger: logging.Logger, **_: Any) -> None:
    handler = logging.FileHandler(log)
    handler.setFormatter(_Json())
    handler.addFilter(SagaLogFilter())
    logger.addHandler(handler)


class TelDeclined(Exception):
    """The card was declined; sagas declare it."""


class TelFault(Exception):
    """No saga declares it."""


GO = Signal("go", str)


@app.task(name="tel.reserve")
def reserve(order: str) -> str:
    told.info("reserving")
    return f"r-{order}"


@app.task(name="tel.release")
def release(reservation: str) -> None:
    if reservation == "r-stuck":
        raise TelFault("it cannot be released")


@app.task(name="tel.charge")
def charge(order: str) -> str:
    if order == "declined":
        raise TelDeclined("no money")
    if order in ("fault", "stuck") or (order in ("again", "declared-again") and current_step.attempt < 3):
        raise TelDeclined("wait") if order == "declared-again" else TelFault("broken")
    if order == "slow":
        time.sleep(6)
    if order == "killed" and current_step.attempt == 1:
        os.kill(os.getpid(), 9)
    return f"c-{order}"


@app.task(name="tel.asks", bind=True, max_retries=3)
def asks(self: Task, order: str) -> str:
    if self.request.retries < 1:
        raise self.retry(countdown=0)
    return order


TWICE = Retry(max_attempts=3, delay=0, jitter=False)
ONCE = Retry(max_attempts=1)


@saga(name="tel_order", errors=[TelDeclined], undo_retry=ONCE)
def order(run: Run, number: str) -> str:
    run.step(reserve.si(number), undo=release)
    return run.step(charge.si(number), retry=TWICE if number.endswith("again") else None)


@saga(name="tel_inline", errors=[TelDeclined], dispatch="inline")
def inline(run: Run, number: str) -> str:
    run.step(reserve.si(number), undo=release)
    return run.step(charge.si(number))


@saga(name="tel_asks")
def asking(run: Run) -> str:
    return run.step(asks.si("a"))


@saga(name="tel_slow")
def slow(run: Run) -> str:
    return run.step(charge.si("slow"), timeout=1, retry=ONCE)


@saga(name="tel_buggy")
def buggy(run: Run) -> None:
    run.step(reserve.si("b"), undo=release)
    raise TelFault("a bug of the body")


@saga(name="tel_waiting", signals=[GO])
def waiting(run: Run) -> str:
    run.sleep(0.1)
    word = run.wait_signal(GO)
    run.log.info("go on")
    run.step(reserve.si(word))
    return word


@saga(name="tel_parent")
def parent(run: Run, number: str) -> str:
    return run.child(order, number)


@saga(name="tel_rounds")
def rounds(run: Run, left: int) -> int:
    run.step(reserve.si(str(left)))
    if left:
        run.continue_as_new(left - 1)
    return left
