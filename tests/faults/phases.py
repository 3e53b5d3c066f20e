"""Sagas that can be caught in any phase of their lives: queued, running, waiting, compensating, in a long step."""

from __future__ import annotations

from celery import shared_task

from celery_saga import Retry, Run, saga, step
from tests.faults.points import Refused
from tests.faults.sagas import GO
from tests.faults.tasks import do, undo

LATE = "late"
"""A queue that nobody reads until the test starts a worker for it."""


@shared_task(name="faults.quick")
def quick(number: int) -> int:
    """Does nothing, so that a step costs what the plug-in costs."""
    return number


@saga(key="{order}", queue=LATE)
def queued(run: Run, order: str) -> str:
    run.step(do.si(order), name="a", undo=undo.si(order))
    return order


@saga(key="{order}")
def plain(run: Run, order: str) -> str:
    """Two steps."""
    run.step(do.si(order), name="a", undo=undo.si(order))
    run.step(do.si(order), name="b", undo=undo.si(order))
    return order


SLOW_UNDO = Retry(max_attempts=5, delay=8, factor=1.0, jitter=False)


@saga(key="{order}", errors=[Refused], undo_retry=SLOW_UNDO)
def compensated(run: Run, order: str) -> str:
    """Its second step is refused; where the plan refuses an undo as well, that is tried again after 8 s."""
    run.step(do.si(order), name="a", undo=undo.si(order))
    run.step(do.si(order), name="b", undo=undo.si(order))
    raise Refused(order)


@saga(key="{order}")
def timed(run: Run, order: str, timeout_s: float) -> str:
    """A wait with a time-out, and then another wait, for something else."""
    word = run.wait_signal(GO, timeout=timeout_s, default="nobody")
    run.step(do.si(order), name="a", undo=undo.si(order))
    return word + run.wait_signal("more", type=str)


@saga(key="{order}")
def told(run: Run, order: str) -> str:
    """A step, then one signal, then its value as the result."""
    run.step(do.si(order), name="a", undo=undo.si(order))
    word = run.wait_signal(GO)
    run.step(do.si(order), name="b", undo=undo.si(order))
    return word


@saga(key="{order}")
def routed(run: Run, order: str, queue: str) -> str:
    """One step on a queue of the test's choice."""
    run.step(step(do.si(order).set(queue=queue), name="a", undo=undo.si(order)))
    return order


@saga(key="{order}")
def counting(run: Run, order: str, steps: int) -> int:
    """Many small steps."""
    return sum(run.step(quick.si(number)) for number in range(steps))
