"""A till whose tasks write into the saga database: what worker processes and the client of the test load."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Celery
from sqlalchemy import insert

from celery_saga import CelerySaga, Run, current_step, saga
from tests.transactional.bank import ledger

settings: dict[str, Any] = json.loads(os.environ["SHOP_SETTINGS"])
log = Path(os.environ["SHOP_LOG"])

app = Celery("till", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **settings)
CelerySaga(app, lease=2.0, sweep_interval=0.2)


def tell(*words: object) -> None:
    with log.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@app.task(name="till.pay")
def pay(word: str, then: str = "") -> str:
    current_step.connection.execute(insert(ledger).values(word=word))
    tell("pay", word, current_step.attempt)
    if then == "dies" and current_step.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if then == "sleeps" and current_step.attempt == 1:
        time.sleep(4)
    return word


@app.task(name="till.slow", soft_time_limit=1)
def slow(word: str) -> None:
    current_step.connection.execute(insert(ledger).values(word=word))
    time.sleep(30)


@app.task(name="till.note")
def note(word: str) -> None:
    tell("note", word)


@saga(name="till-sale")
def sale(run: Run, word: str, then: str = "") -> str:
    run.step(pay.si(word, then), undo=note.si("never"), transactional=True)
    run.step(note.si(word))
    return word


@saga(name="till-slow-sale")
def slow_sale(run: Run, word: str) -> None:
    run.step(slow.si(word), transactional=True)


@saga(name="till-inline-sale", dispatch="inline")
def inline_sale(run: Run, word: str) -> str:
    run.step(note.si("before"))
    run.step(pay.si(word), transactional=True)
    run.step(note.si("after"))
    run.step(note.si("last"))
    return word
