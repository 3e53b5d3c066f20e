"""Sagas in lanes whose steps leave rows in the ledger; loaded by workers and by the tests' clients."""

from __future__ import annotations

import threading

from celery import shared_task

from celery_saga import Lane, RateLimited, Retry, Run, current_step, saga
from tests.faults import points
from tests.faults.points import Refused

WORK_S = 0.15


@shared_task(name="lanes.work")
def work(order: str) -> str:
    """Begins and ends in the ledger: what lies between is active."""
    points.effect("begin")
    threading.Event().wait(WORK_S)
    points.effect("end")
    return order


@shared_task(name="lanes.limited")
def limited(order: str) -> None:
    """Finds a limit once."""
    fault = points.reach("before_effect", order, "limit")
    if fault is not None:
        raise RateLimited(1.5)
    points.effect("begin")


@shared_task(name="lanes.refused", bind=True)
def refused(self: object, order: str) -> None:
    """Fails once."""
    points.effect(order)
    if current_step.attempt == 1:
        raise Refused(order)


def _work(run: Run, order: str) -> None:
    run.step(work.si(order), name="work")


@saga(key="{order}", lane="{lane}")
def in_lane(run: Run, order: str, lane: str) -> None:
    _work(run, order)


@saga(key="{order}")
def free(run: Run, order: str) -> None:
    _work(run, order)


@saga(key="{order}")
def free_too(run: Run, order: str) -> None:
    _work(run, order)


@saga(key="{order}", max_active=2, lane=Lane("wide", cap=5))
def capped(run: Run, order: str) -> None:
    _work(run, order)


@saga(key="{order}", lane=Lane("api", cap=2))
def asks_api(run: Run, order: str) -> None:
    run.step(limited.si(order), name="ask")


@saga(key="{order}", errors=[Refused])
def backs_off(run: Run, order: str, delay_s: float) -> None:
    run.step(refused.si(order), name="once", retry=Retry(2, delay=delay_s, jitter=False))


@saga(key="{order}")
def sleeps(run: Run, order: str, until_s: float) -> None:
    run.sleep(until_s)
    run.step(work.si(order), name="work")
