"""An app as people have it, with sagas: what worker processes and clients of these tests load."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import celery
from celery import Celery, Task, shared_task
from celery.exceptions import Ignore, SoftTimeLimitExceeded
from pydantic import BaseModel

from celery_saga import CelerySaga, Retry, Run, Signal, current_step, saga, step

settings: dict[str, Any] = json.loads(os.environ["SHOP_SETTINGS"])
log = Path(os.environ["SHOP_LOG"])

app = Celery("shop", set_as_current=True)
app.conf.update(broker_connection_retry_on_startup=True, **settings)
if "without_sagas" not in os.environ.get("SHOP_MODE", ""):
    CelerySaga(app, lease=2.0, sweep_interval=0.2)


def tell(*words: object) -> None:
    """One line in the log that the test reads."""
    with log.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def calls() -> list[str]:
    return log.read_text().splitlines()


class OutOfStock(Exception):
    """Nothing left."""


class GatewayTimeout(Exception):
    """The gateway does not answer."""


# -- the tasks of a shop ------------------------------------------------------------------------------------------
@app.task(name="shop.reserve")
def reserve(order_id: str) -> str:
    tell("reserve", order_id)
    return f"r-{order_id}"


@shared_task(name="shop.release")
def release(reservation: str) -> None:
    tell("release", reservation)


@app.task(name="shop.charge", bind=True, autoretry_for=(GatewayTimeout,), max_retries=2, default_retry_delay=0)
def charge(self: Task, key: str, cents: int) -> str:
    same = current_step and key == current_step.idempotency_key
    tell("charge", cents, "retries", self.request.retries, "args", self.request.args[1:], "same key", same)
    if (cents == 13 and self.request.retries < 2) or cents == 99:
        raise GatewayTimeout("again")
    return f"ch-{cents}"


@shared_task(name="shop.refund")
def refund(charge_id: str) -> None:
    tell("refund", charge_id, "because of", type(current_step.cause).__name__)


@app.task(name="shop.dispatch")
def dispatch(order_id: str) -> str:
    tell("dispatch", order_id)
    if order_id == "none":
        raise OutOfStock(order_id)
    return "sent"


GO = Signal("go", str)


@saga(errors=[OutOfStock, GatewayTimeout])
def checkout(run: Run, order_id: str, cents: int) -> str:
    run.step(reserve.si(order_id), undo=release)
    charge_id = run.step(charge.si(run.idempotency_key("charge"), cents), undo=refund)
    run.step(dispatch.si(order_id))
    return charge_id


@saga
def approval(run: Run) -> str:
    run.step(reserve.si("a"))
    word = run.wait_signal(GO)
    run.step(dispatch.si(word))
    return word


# -- every kind of task as a step -----------------------------------------------------------------------------------
class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Parcel:
    id: str
    grams: int


class Label(BaseModel):
    text: str
    copies: int = 1


@app.task(name="kinds.bound", bind=True)
def bound(self: Task, number: int) -> str:
    return f"{self.name} {self.request.retries} {self.request.args} {self.request.root_id == current_step.run_id}"


class Classy(Task):
    name = "kinds.classy"

    def run(self, number: int) -> int:
        return number + 1


classy = app.register_task(Classy())


class Wrapping(Task):
    """A base with everything that a project may override."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tell("call", args)
        value = super().__call__(*args, **kwargs)
        tell("called", value)
        return value

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        tell("before_start", args)

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        tell("on_success", retval, args)

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        tell("on_failure", type(exc).__name__, args)


@app.task(name="kinds.wrapped", base=Wrapping)
def wrapped(number: int) -> int:
    return number * 2


@app.task(name="kinds.typed")
def typed(parcel: Parcel, label: Label, colour: Colour, plain: dict[str, Any]) -> str:
    return (
        f"{type(parcel).__name__} {parcel.grams} {type(label).__name__} {label.copies} {colour is Colour.BLUE} {plain}"
    )


@app.task(name="kinds.asks_again", bind=True, max_retries=5)
def asks_again(self: Task, number: int) -> str:
    tell("asks_again", number, self.request.retries)
    if number < 3:
        raise self.retry(args=(number + 1,), countdown=0)
    return f"{number} after {self.request.retries}"


@app.task(name="kinds.nested")
def nested(number: int) -> int:
    return classy(number) + wrapped(number)


if celery.__version__ >= "5.5":

    @app.task(name="kinds.validated", pydantic=True)
    def validated(label: Label) -> Label:
        return Label(text=label.text * label.copies, copies=1)

else:
    validated = typed


KINDS = {
    "validated": lambda: validated.si({"text": "x", "copies": 3}),
    "queued": lambda: one.si().set(queue="elsewhere", priority=3, headers={"tenant": "t"}),
    "bound": lambda: bound.si(3),
    "classy": lambda: classy.si(3),
    "wrapped": lambda: wrapped.si(3),
    "typed": lambda: typed.si(Parcel("p", 5), Label(text="x", copies=2), Colour.BLUE, {"a": 1}),
    "asks_again": lambda: asks_again.si(1),
    "nested": lambda: nested.si(3),
    "one": lambda: one.si(),  # noqa: PLW0108  # defined below
}


@saga
def kind_of(run: Run, name: str) -> Any:
    return run.step(KINDS[name]())


# -- trouble -------------------------------------------------------------------------------------------------------
@app.task(name="trouble.dies")
def dies(order_id: str) -> str:
    tell("dies", current_step.attempt, current_step.idempotency_key)
    if current_step.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@app.task(name="trouble.slow")
def slow(wait_s: float) -> str:
    tell("slow", current_step.attempt, os.getpid())
    end_s = time.monotonic() + wait_s
    while time.monotonic() < end_s and not current_step.cancelled:
        time.sleep(0.05)
    tell("slow ends", current_step.attempt, "cancelled" if current_step.cancelled else "")
    return "waited"


@app.task(name="trouble.hangs", time_limit=1)
def hangs() -> None:
    tell("hangs", current_step.attempt)
    time.sleep(60)


@app.task(name="trouble.soft", soft_time_limit=1)
def soft() -> str:
    tell("soft", current_step.attempt)
    try:
        time.sleep(30)
    except SoftTimeLimitExceeded:
        return "cut"
    return "not cut"


@app.task(name="trouble.ignores")
def ignores() -> None:
    raise Ignore


@app.task(name="trouble.exits")
def exits() -> str:
    tell("exits", current_step.attempt)
    if current_step.attempt == 1:
        raise SystemExit(3)
    return "came back"


@app.task(name="trouble.returns_junk")
def returns_junk() -> Any:
    return threading.Lock()


TROUBLES = {
    "dies": lambda: dies.si("o"),
    "slow": lambda: slow.si(5.0),
    "late": lambda: step(slow.si(6.0), timeout=0.5),
    "hangs": lambda: step(hangs.si(), retry=Retry(max_attempts=2, delay=0)),
    "soft": soft.si,
    "ignores": ignores.si,
    "exits": exits.si,
    "returns_junk": returns_junk.si,
}


@saga
def trouble(run: Run, name: str) -> Any:
    return run.step(TROUBLES[name](), undo=note_undo.si(name))


@app.task(name="trouble.note_undo")
def note_undo(name: str) -> None:
    tell("undo", name)


@saga(errors=[ValueError])
def remotely(run: Run, word: str) -> str:
    return run.step(step(app.signature("foreign.shout", args=(word,), immutable=True), remote=True, timeout=4.0))


@saga
def impure(run: Run) -> None:
    reserve.delay("never")


@saga
def long_one(run: Run, steps: int) -> int:
    total = 0
    for _ in range(steps):
        total += run.step(one.si())
    return total


@app.task(name="kinds.one", bind=True)
def one(self: Task) -> int:
    if (self.request.headers or {}).get("tenant"):
        tell("one", self.request.delivery_info["routing_key"], self.request.tenant)
    return 1


def only_the_shops(
    name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **_: Any
) -> dict[str, str] | None:
    """A strict router."""
    if name.startswith("celery_saga."):
        raise ValueError(f"{name} is not ours")
    return None


if "without_kinds" in os.environ.get("SHOP_MODE", ""):
    for _name in [name for name in app.tasks if name.startswith("kinds.")]:
        app.tasks.unregister(_name)


# -- joins ---------------------------------------------------------------------------------------------------------
@app.task(name="joins.told")
def told(wait_s: float) -> str:
    return slow.run(wait_s)


@app.task(name="joins.undo_told")
def undo_told(result: str) -> None:
    tell("undo told", result)


@saga(name="joins-race")
def raced_slowly(run: Run) -> str:
    won = run.race(slow=step(told.si(30.0), undo=undo_told), go=GO_ON)
    return won.name


@saga(name="joins-together")
def together(run: Run) -> Any:
    def part(run: Run) -> int:
        return run.step(doubled.si(run.step(doubled.si(1))))

    return [list(run.group(part, doubled.si(5))), list(run.map(doubled, range(4), concurrency=2))]


@app.task(name="joins.doubled")
def doubled(number: int) -> int:
    return 2 * number


GO_ON = Signal("go_on")
