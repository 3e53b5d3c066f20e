"""Sagas whose steps leave rows in the ledger; loaded by workers and by the tests' clients."""

from __future__ import annotations

import os
from typing import Any

from celery import signature

from celery_saga import Retry, Run, Signal, saga, step
from tests.faults.points import Refused
from tests.faults.tasks import do, stubborn, undo

BODY = "FAULTS_BODY"
"""Environment variable: `buggy` gives the body of `patient` a bug."""


def _c(order: str) -> Any:
    """A task that some workers lack, so it is named and not imported."""
    return signature("faults.c", (order,), immutable=True)


def _three(run: Run, order: str) -> str:
    run.step(do.si(order), name="a", undo=undo.si(order))
    run.step(do.si(order), name="b", undo=undo.si(order))
    run.step(_c(order), name="c", undo=undo.si(order))
    return order


@saga(key="{order}", errors=[Refused])
def s3(run: Run, order: str) -> str:
    return _three(run, order)


SHORT = Retry(max_attempts=3, delay=0.1, factor=1.0, jitter=False)


@saga(key="{order}", errors=[Refused], undo_retry=SHORT)
def s3_continue(run: Run, order: str) -> str:
    return _three(run, order)


@saga(key="{order}", errors=[Refused], undo_retry=SHORT, on_undo_failure="hold")
def s3_hold(run: Run, order: str) -> str:
    return _three(run, order)


TEN = tuple(f"s{number}" for number in range(1, 11))


@saga(key="{order}", errors=[Refused])
def ten(run: Run, order: str) -> str:
    for name in TEN:
        run.step(do.si(order), name=name, undo=undo.si(order))
    return order


@saga(key="{order}", errors=[Refused])
def two(run: Run, order: str, max_attempts: int = 0, delay_s: float = 0.0) -> str:
    """Two steps with undos; the second has a policy where `max_attempts` is above 0."""
    retry = Retry(max_attempts=max_attempts, delay=delay_s, factor=2.0, jitter=False) if max_attempts else None
    run.step(do.si(order), name="a", undo=undo.si(order))
    run.step(do.si(order), name="b", undo=undo.si(order), retry=retry)
    return order


@saga(key="{order}", errors=[Refused])
def autoretried(run: Run, order: str, max_attempts: int = 0) -> None:
    retry = Retry(max_attempts=max_attempts, delay=0, jitter=False) if max_attempts else None
    run.step(step(stubborn.si(order), name="b", retry=retry))


GO = Signal("go", str)


@saga(key="{order}", errors=[Refused])
def patient(run: Run, order: str, sleep_s: float = 0.0) -> str:
    """A step, then a wait (for a timer if `sleep_s` is above 0, else for a signal), then another step."""
    run.step(do.si(order), name="a", undo=undo.si(order))
    if sleep_s:
        run.sleep(sleep_s)
    else:
        run.wait_signal(GO)
    if os.environ.get(BODY) == "buggy":
        raise TypeError("somebody forgot an argument")
    run.step(do.si(order), name="b", undo=undo.si(order))
    return order
