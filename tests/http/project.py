"""A Celery project that is served over HTTP; it executes runs in the process that moves them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from celery import Celery

from celery_saga import CelerySaga, Retry, Run, Signal, current_step, saga

SAGAS = ("purchase", "lingering", "broken", "clumsy", "careful", "asking", "family", "crowd", "leaky", "varied")

app = Celery("served")
app.conf.update(
    broker_url="memory://",
    task_always_eager=True,
    saga_database_url=os.environ.get("TEST_DATABASE_URL", "sqlite://"),
    saga_secret_keys=["a long enough secret for tests"],
    saga_sagas=[f"tests.http.project:{name}" for name in SAGAS],
)
CelerySaga(app)


class TooDear(Exception):
    """A declared error."""


class Fussy(Exception):
    """A declared error that is not made of a text."""

    def __init__(self, code: int, where: str) -> None:
        super().__init__(code, where)


@dataclass(frozen=True)
class Item:
    """An argument with a default, which a JSON object may leave out."""

    sku: str
    count: int = 1


APPROVAL = Signal("approval", bool)
MAILS: list[str] = []
"""Tokens that were mailed."""


@app.task
def reserve(sku: str) -> str:
    """A step that tells how far it is."""
    current_step.progress(1, 2, "half of it")
    return f"held {sku}"


@app.task
def release(held: str) -> None:
    """Its undo."""


@app.task
def price(count: int) -> Decimal:
    """A step whose result is no plain JSON."""
    return Decimal("9.50") * count


@app.task
def fail(text: str) -> None:
    """A step that fails with a declared error."""
    raise TooDear(text)


@app.task
def cannot(held: str) -> None:
    """An undo that fails."""
    raise ConnectionError("it does not open")


@app.task
def mail(token: str) -> None:
    """A step that mails a link."""
    MAILS.append(token)


@saga(key="{item.sku}", signals=[APPROVAL], errors=[TooDear, Fussy], tags=["shop"])
def purchase(run: Run, item: Item) -> Decimal:
    """Waits for an approval."""
    run.step(reserve.si(item.sku), undo=release)
    if not run.wait_signal(APPROVAL):
        raise TooDear("not approved")
    return run.step(price.si(item.count))


@saga
def lingering(run: Run, note: str = "") -> str:
    """Waits for signals that it does not declare, for the first of them not for long."""
    first = run.wait_signal("go", timeout=timedelta(hours=1), default="nobody")
    return f"{first} {run.wait_signal('stop')}"


@saga
def broken(run: Run) -> None:
    """Has a bug."""
    run.step(reserve.si("b"), undo=release)
    raise ValueError("a bug")


@saga(errors=[TooDear])
def clumsy(run: Run) -> None:
    """Has to be undone, and cannot."""
    run.step(reserve.si("c"), undo=cannot, undo_retry=Retry(max_attempts=1))
    raise TooDear("always")


@saga(errors=[TooDear], on_failure="suspend")
def careful(run: Run) -> None:
    """Waits for a person when a step fails."""
    run.step(fail.si("over budget"), retry=Retry(max_attempts=1))


@saga(signals=[APPROVAL])
def asking(run: Run, secret: str) -> bool:
    """Mails a link."""
    run.step(mail.si(run.token(APPROVAL)))
    return run.wait_signal(APPROVAL)


@saga
def family(run: Run) -> str:
    """Has a child that waits."""
    return run.child(lingering, "child")


@saga
def crowd(run: Run, names: list[str]) -> list[str]:
    """Has a join."""
    run.record("chosen", lambda: len(names))
    return run.map(reserve, names)


def _key(password: str) -> str:
    raise RuntimeError(f"the password is {password}")


@saga(key=_key)
def leaky(run: Run, password: str) -> None:
    """Has a key that breaks."""


def _part(run: Run) -> str:
    return run.step(reserve.si("part"))


@saga(errors=[TooDear])
def varied(run: Run) -> None:
    """Has steps of many kinds, and sleeps."""
    run.patched("news")
    run.on_undo(release.si("by hand"), name="by-hand")
    with run.shield():
        run.step(reserve.si("shielded"), undo=release)
    try:
        with run.scope("inner"):
            run.step(reserve.si("inner"), undo=release)
            raise TooDear("for the scope")
    except TooDear:
        pass
    run.group(_part, reserve.si("task"))
    run.sleep(timedelta(days=1))
