"""Sagas whose runs are kept, purged, exported and imported."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from celery import Celery, shared_task

from celery_saga import CelerySaga, Retry, Run, saga, step

app = Celery("retention", broker="memory://")
app.conf.update(saga_database_url="sqlite://")
CelerySaga(app)


class Declined(Exception):
    """Declared."""


@shared_task(name="retention.book")
def book(what: str) -> Decimal:
    """A step."""
    return Decimal("1.10")


@shared_task(name="retention.refuse")
def refuse(what: str) -> None:
    """A step that fails."""
    raise Declined(what)


@shared_task(name="retention.cancel")
def cancel(price: Decimal) -> str:
    """An undo."""
    return f"back {price}"


@shared_task(name="retention.broken")
def broken(price: Decimal) -> None:
    """An undo that never works."""
    raise Declined("closed")


@saga(name="kept", key="{order}")
def kept(run: Run, order: str) -> Decimal:
    """A step and its end."""
    return run.step(book.si(order), undo=cancel)


@saga(name="kept_plain")
def plain(run: Run, order: str) -> Decimal:
    """The same without a key."""
    return run.step(book.si(order), undo=cancel)


@saga(name="kept_waits")
def waits(run: Run, order: str) -> object:
    """Waits for a signal."""
    run.step(book.si(order), undo=cancel)
    return run.wait_signal("go", timeout=timedelta(days=900))


@saga(name="fails", key="{order}", errors=[Declined])
def fails(run: Run, order: str) -> None:
    """Fails, and is undone."""
    run.step(book.si(order), undo=cancel)
    run.step(refuse.si(order))


@saga(name="stays", errors=[Declined])
def stays(run: Run, order: str) -> None:
    """Fails, and cannot be undone."""
    run.step(book.si(order), undo=broken, undo_retry=Retry(1))
    run.step(refuse.si(order))


@saga(name="parks", errors=[Declined], on_failure="suspend")
def parks(run: Run, order: str) -> None:
    """Is suspended when its step fails."""
    run.step(book.si(order), undo=cancel)
    run.step(refuse.si(order))


@saga(name="parent")
def parent(run: Run, order: str, depth: int) -> object:
    """Has children, and they have theirs."""
    if depth == 0:
        return run.step(book.si(order))
    return [run.child(parent, order, depth - 1) for _ in range(2)]


@saga(name="everything", errors=[Declined])
def everything(run: Run, order: str) -> object:
    """A step of each kind."""
    started = run.now(), run.uuid(), run.random()
    with run.scope("inner"):
        run.step(book.si(order), undo=cancel, name="first")
    run.on_undo(cancel.si(Decimal(3)))
    run.group({"a": step(book.si(order), undo=cancel), "b": book.si(order)}, concurrency=1)
    run.map(lambda run, item: run.step(book.si(item)), ["x", "y"], name="each")
    run.race(fast=book.si(order), slow=3600)
    run.sleep(1)
    run.record("told", lambda: {"day": started[0].date(), "of": (1, 2), "raw": b"\x00\xff"})
    run.child(plain, order)
    run.patched("second-edition")
    with run.shield():
        run.wait_signal("go", timeout=60, default="nobody")
    run.pivot()
    return order
