"""A limit that a remote step has met comes back through the result backend, by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, RateLimited, Run, saga
from celery_saga.runtime.messages import task_id_of
from celery_saga.runtime.names import REPORT
from celery_saga.testing import Lab


@pytest.fixture(params=["json", "pickle"])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A laboratory of an app with a result backend."""
    app = Celery("limits", backend="cache+memory://", set_as_current=False)
    app.conf.update(result_serializer=request.param, accept_content=["json", "pickle"])
    CelerySaga(app, database_url="sqlite://")
    with Lab(app) as opened:
        yield opened
    app.close()


def test_rate_limited_of_a_remote_step_is_no_failure(lab: Lab) -> None:
    @lab.app.task(name="remote.limited", shared=False)
    def limited() -> str:
        return "done"

    @saga(name="remote_limited")
    def asks(run: Run) -> str:
        return run.step(limited.si())

    run = lab.start(asks)
    lab.engine.coordinate(run.id)
    [step] = run.steps()
    # What the remote sender does: it claims, sends the task itself, and is told of its end.
    claimed = lab.engine.claim(step.run_id, step.generation, step.key, owner="remote:x")
    assert claimed is not None
    error: Any = RateLimited(timedelta(seconds=45), "the partner says no")
    lab.app.backend.store_result(task_id_of(claimed.step), error, "FAILURE")
    ids = {"run": run.id, "generation": 1, "step": step.key, "token": claimed.step.claim_token, "failed": True}

    lab.app.tasks[REPORT](task_id_of(claimed.step), **ids)

    [put_back] = run.steps()
    assert (put_back.status, put_back.attempt, put_back.failures, put_back.stalls) == ("scheduled", 0, 0, 0)
    lab.advance(44)
    assert run.refresh().status == "waiting" or run.status == "running"
    lab.advance(2)
    assert run.refresh().wait(0) == "done"
