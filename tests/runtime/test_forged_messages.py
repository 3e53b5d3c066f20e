"""Messages of a step's own form that say what is not so."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, Run, saga
from celery_saga.runtime.envelope import begin
from celery_saga.runtime.step_task import install
from celery_saga.testing import Lab

app = Celery("forged", set_as_current=False)
CelerySaga(app)
calls: list[str] = []


@app.task(name="forged.pay", shared=False)
def pay(order: str) -> str:
    calls.append(f"pay {order}")
    return order


@app.task(name="forged.delete", shared=False)
def delete(order: str) -> None:
    calls.append(f"delete {order}")


@saga(name="forged")
def forged(run: Run, order: str) -> str:
    return str(run.step(pay.s(order)))


def test_a_message_that_names_another_task_executes_nothing_and_costs_no_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls.clear()
    install(app)
    with Lab(app) as lab:
        handle = forged.start("o1")
        services: Any = app.saga.services
        services.engine.coordinate(handle.id)
        ref = {"run": handle.id, "generation": 1, "step": "pay", "task": "forged.delete"}

        assert begin(app.tasks["forged.delete"], ref) is None
        assert "names the task 'forged.delete'" in caplog.text
        (step,) = handle.steps()
        assert (step.attempt, step.stalls, step.failures) == (0, 0, 0)
        lab.advance(1)
        assert handle.refresh().status == "completed"
    assert calls == ["pay o1"]
