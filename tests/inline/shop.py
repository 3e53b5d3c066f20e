"""An app whose sagas run inline: what worker processes and clients of these tests load."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task
from celery import signals as hooks
from celery.exceptions import Ignore, SoftTimeLimitExceeded

from celery_saga import CelerySaga, Retry, Run, Signal, current_step, saga

settings: dict[str, Any] = json.loads(os.environ["SHOP_SETTINGS"])
log = Path(os.environ["SHOP_LOG"])

app = Celery("inline_shop", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **settings)
CelerySaga(app, lease=2.0, sweep_interval=0.2)


def tell(*words: object) -> None:
    """One line in the log that the test reads."""
    with log.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def told(line: str) -> bool:
    return line in log.read_text().splitlines()


class OutOfStock(Exception):
    """Nothing left."""


@app.task(name="inline_shop.one", bind=True)
def one(self: Task, n: int) -> int:
    return n + 1


@app.task(name="inline_shop.where", bind=True)
def where(self: Task, name: str) -> dict[str, Any]:
    """What a step can see of its own request."""
    request = self.request
    return {
        "id": request.id,
        "name": self.name,
        "args": list(request.args),
        "hostname": request.hostname,
        "root": request.root_id == current_step.run_id,
        "parent": request.parent_id == current_step.run_id,
        "retries": request.retries,
        "is_eager": request.is_eager,
        "called_directly": request.called_directly,
        "tenant": (request.headers or {}).get("tenant"),
        "step": current_step.step,
        "pid": os.getpid(),
        "key": request.delivery_info["routing_key"],
    }


@app.task(name="inline_shop.sends")
def sends() -> str:
    """A step may send tasks, which its body may not."""
    one.delay(1)
    return "sent"


@app.task(name="inline_shop.flaky", bind=True, autoretry_for=(ValueError,), max_retries=3, default_retry_delay=0)
def flaky(self: Task) -> int:
    tell("flaky", self.request.retries, os.getpid())
    if self.request.retries < 1:
        raise ValueError("again")
    return self.request.retries


@app.task(name="inline_shop.fails")
def fails() -> None:
    raise OutOfStock("none")


@app.task(name="inline_shop.ignores")
def ignores() -> None:
    raise Ignore


class Picky(Task):
    """Has hooks of its own, and one that refuses."""

    abstract = True

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        tell("before_start", args)
        if list(args) == ["refused"]:
            raise OutOfStock("before the start")

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        tell("on_success", retval)

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        tell("on_failure", type(exc).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tell("call", args)
        return super().__call__(*args, **kwargs)


@app.task(name="inline_shop.picky", base=Picky)
def picky(word: str) -> str:
    return word.upper()


@app.task(name="inline_shop.note")
def note(word: str) -> str:
    tell(word)
    return word


@app.task(name="inline_shop.waits")
def waits(word: str) -> str:
    """Go on when the test says so."""
    tell("waits")
    end_s = time.monotonic() + 20
    while not told("go on") and time.monotonic() < end_s:
        time.sleep(0.02)
    tell("goes on", "cancelled" if current_step.cancelled else "")
    return word


@app.task(name="inline_shop.patient")
def patient_step() -> str:
    """Go on until the run is cancelled."""
    tell("patient")
    end_s = time.monotonic() + 20
    while not current_step.cancelled and time.monotonic() < end_s:
        time.sleep(0.02)
    tell("learnt of it" if current_step.cancelled else "never learnt")
    return "w"


@app.task(name="inline_shop.lasts")
def lasts(wait_s: float) -> None:
    tell("lasts")
    time.sleep(wait_s)
    tell("lasted")


@app.task(name="inline_shop.slow_one")
def slow_one(n: int) -> int:
    tell("slow one")
    time.sleep(0.1)
    return n + 1


@app.task(name="inline_shop.cut")
def cut() -> str:
    try:
        time.sleep(10)
    except SoftTimeLimitExceeded:
        return "cut"
    return "not cut"


@app.task(name="inline_shop.dies")
def dies() -> str:
    tell("dies", current_step.attempt)
    if current_step.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@app.task(name="inline_shop.limited", time_limit=30)
def limited() -> int:
    return os.getpid()


@app.task(name="inline_shop.rated", rate_limit="1000/s")
def rated() -> int:
    return os.getpid()


@app.task(name="inline_shop.pid")
def pid() -> int:
    return os.getpid()


for _name in ("prerun", "postrun", "success", "failure", "retry"):

    def _receive(sender: Any = None, state: Any = None, _name: str = _name, **_: Any) -> None:
        if sender.name in {"inline_shop.flaky", "inline_shop.fails"}:
            tell("hook", _name, sender.name.rpartition(".")[2], state or "")

    getattr(hooks, f"task_{_name}").connect(_receive, weak=False)


GO = Signal("go", str)


@saga(name="inline_count", dispatch="inline")
def count(run: Run, steps: int) -> int:
    n = 0
    for _ in range(steps):
        n = run.step(one.si(n))
    return n


@saga(name="inline_looks", dispatch="inline")
def looks(run: Run) -> list[dict[str, Any]]:
    return [run.step(where.si("a")), run.step(where.si("b"), name="second")]


@saga(name="inline_sends", dispatch="auto")
def sending(run: Run) -> str:
    run.step(sends.si())
    return run.step(sends.si())


@saga(name="inline_retries", dispatch="inline")
def retries(run: Run) -> int:
    run.step(one.si(1))
    tries = run.step(flaky.si())
    run.step(one.si(2))
    return tries


@saga(name="inline_fails", dispatch="inline", errors=[OutOfStock])
def failing(run: Run, *, caught: bool) -> str:
    run.step(note.si("done"), undo=note.si("undone"))
    try:
        run.step(fails.si())
    except OutOfStock:
        if not caught:
            raise
        return run.step(note.si("otherwise"))
    return "never"


@saga(name="inline_picky", dispatch="inline", errors=[OutOfStock])
def with_hooks(run: Run, word: str) -> str:
    return run.step(picky.si(word))


@saga(name="inline_ignores", dispatch="inline")
def ignoring(run: Run) -> None:
    run.step(ignores.si(), retry=Retry(1))


@saga(name="inline_cancelled", dispatch="inline")
def cancelled(run: Run) -> str:
    run.step(note.si("first"), undo=note.si("first undone"))
    run.step(waits.si("w"), undo=note.si("waits undone"))
    return run.step(note.si("never"))


@saga(name="inline_signalled", dispatch="inline", signals=[GO])
def signalled(run: Run) -> str:
    run.step(waits.si("w"))
    run.step(note.si("second"))
    word = run.wait_signal(GO)
    run.step(note.si(word))
    run.sleep(0.3)
    return run.step(note.si("last"))


@saga(name="inline_dying", dispatch="inline")
def dying(run: Run) -> list[str]:
    return [run.step(note.si("before")), run.step(dies.si()), run.step(note.si("after"))]


@saga(name="inline_leaves", dispatch="inline")
def leaves(run: Run) -> dict[str, int]:
    return {
        "first": run.step(pid.si(), name="first"),
        "limited": run.step(limited.si()),
        "rated": run.step(rated.si()),
        "queued": run.step(pid.si().set(queue="elsewhere"), name="queued"),
        "timed": run.step(pid.si(), name="timed", timeout=30),
        "broker": run.step(pid.si(), name="broker", dispatch="broker"),
        "last": run.step(pid.si(), name="last"),
    }


@saga(name="inline_patient", dispatch="inline")
def patient(run: Run) -> None:
    run.step(patient_step.si())


@saga(name="inline_lasting", dispatch="inline")
def lasting(run: Run, wait_s: float) -> None:
    run.step(lasts.si(wait_s))


@saga(name="inline_slow_count", dispatch="inline")
def slow_count(run: Run, steps: int) -> int:
    n = 0
    for _ in range(steps):
        n = run.step(slow_one.si(n))
    return n


@saga(name="inline_overlong", dispatch="inline")
def overlong(run: Run) -> str:
    return run.step(cut.si())
