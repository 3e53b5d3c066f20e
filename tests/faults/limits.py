"""Sagas whose tasks have time limits, whose values are large, and tasks that do odd things with their message."""

from __future__ import annotations

from typing import Any

from celery import Task, shared_task

from celery_saga import Run, saga
from tests.faults import points
from tests.faults.points import Refused
from tests.faults.sagas import SHORT
from tests.faults.tasks import do, undo

LIMIT_S = 1.0


@shared_task(name="faults.limited", time_limit=LIMIT_S)
def limited(order: str = "no order") -> str:
    points.effect(order)
    return f"done {order}"


@saga(key="{order}", errors=[Refused], undo_retry=SHORT)
def bounded(run: Run, order: str) -> str:
    """Its second step and the undo of its first have a hard time limit."""
    run.step(do.si(order), name="a", undo=limited.si(order))
    run.step(limited.si(order), name="b", undo=undo.si(order), retry=SHORT)
    return order


@shared_task(name="faults.echo")
def echo(order: str, value: str) -> str:
    points.effect(order)
    return value


@saga(key="{order}")
def large(run: Run, order: str, value: str) -> str:
    """A value that goes in, through two steps, and out again."""
    for name in ("a", "b"):
        value = run.step(echo.si(order, value), name=name, undo=undo.si(order))
    return value


@shared_task(name="faults.replaces", bind=True)
def replaces(self: Task[Any, Any], order: str) -> None:
    """Puts another task in its place, as Celery lets tasks do."""
    points.effect(order)
    self.replace(do.si(order))


@shared_task(name="faults.marks", bind=True)
def marks(self: Task[Any, Any], order: str) -> str:
    """Says in the result backend that it failed, and returns a value."""
    points.effect(order)
    self.update_state(state="FAILURE", meta={"exc_type": "Refused", "exc_message": order})
    return order


@saga(key="{order}")
def replaced(run: Run, order: str) -> None:
    run.step(do.si(order), name="a", undo=undo.si(order))
    run.step(replaces.si(order), name="b", undo=undo.si(order))


@saga(key="{order}")
def marked(run: Run, order: str) -> str:
    return run.step(marks.si(order), name="a", undo=undo.si(order))


@shared_task(name="faults.slow", acks_late=True)
def slow(order: str) -> None:
    """An ordinary task, of no run, that is acknowledged when it has ended."""
    points.reach("before_effect", order, "slow")
