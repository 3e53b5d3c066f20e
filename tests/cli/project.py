"""A Celery project whose commands are tested; it executes runs in the process that moves them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from celery import Celery

from celery_saga import CelerySaga, Retry, Run, Signal, saga

app = Celery("project")
app.conf.update(
    broker_url="memory://",
    task_always_eager=True,
    saga_database_url=os.environ.get("TEST_DATABASE_URL", "sqlite://"),
    saga_sagas=[f"tests.cli.project:{name}" for name in ("order", "fragile", "clumsy", "careful")],
)
CelerySaga(app)


class TooDear(Exception):
    """A declared error."""


@dataclass(frozen=True)
class Line:
    """An argument with a default, which a JSON object may leave out."""

    sku: str
    count: int = 1


APPROVAL = Signal("approval", bool)


@app.task
def reserve(sku: str) -> str:
    """A step."""
    return f"held {sku}"


@app.task
def release(held: str) -> None:
    """Its undo."""


@app.task
def price(count: int) -> Decimal:
    """A step whose result is no plain JSON."""
    if _is_set("dear"):
        raise TooDear("over budget")
    return Decimal("9.50") * count


@saga(key="{line.sku}", signals=[APPROVAL], errors=[TooDear])
def order(run: Run, line: Line) -> Decimal:
    """Waits for an approval."""
    run.step(reserve.si(line.sku), undo=release)
    if not run.wait_signal(APPROVAL):
        raise TooDear("not approved")
    return run.step(price.si(line.count))


@saga
def fragile(run: Run, name: str) -> str:
    """Has a bug while the switch is set."""
    if _is_set("bug"):
        raise ValueError("a bug")
    return run.step(reserve.si(name))


@app.task
def let_go(held: str) -> str:
    """An undo that fails while the switch is set."""
    if _is_set("stuck"):
        raise ConnectionError("it does not open")
    return f"let go of {held}"


@saga(errors=[TooDear])
def clumsy(run: Run, name: str) -> None:
    """Has to be undone, always."""
    run.step(reserve.si(name), undo=let_go, undo_retry=Retry(max_attempts=1))
    raise TooDear("always")


@saga(errors=[TooDear], on_failure="suspend")
def careful(run: Run, count: int) -> str:
    """Waits for a person when a step fails."""
    return str(run.step(price.si(count)))


def _is_set(switch: str) -> bool:
    folder = os.environ.get("TEST_SWITCHES")
    return folder is not None and (Path(folder) / switch).exists()
