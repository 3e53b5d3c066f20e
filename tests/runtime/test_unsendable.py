"""A message that can never be sent holds up no other one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from celery_saga.engine.ports import RunMessage, StepMessage
from celery_saga.runtime.publisher import CeleryPublisher
from celery_saga.runtime.sender import PooledSender
from celery_saga.runtime.settings import Settings
from celery_saga.testing.samples import a_run, a_step


def route(name: str, *_: Any, **__: Any) -> None:
    """A router of the user's that knows some tasks only."""
    if name == "shop.unknown":
        raise LookupError(f"no route for {name}")


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("unsendable", broker="memory://", set_as_current=False)
    app.conf.update(task_routes=[route], task_default_queue="unsendable")  # in memory, queues are those of the process
    yield app
    app.close()


def test_what_a_router_refuses_is_told_and_the_rest_goes_out(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    publisher = CeleryPublisher(app, Settings(), PooledSender(app))
    run = a_run()
    refused = StepMessage(run, a_step(run.id, "refused", task="shop.unknown"))
    fine = RunMessage(run)

    handled = publisher.publish([refused, fine, refused, fine])

    assert publisher.depth(fine) == 2
    assert handled == 4  # a wait that grows is right for what is refused again and again
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in told] == [
        f"step 'refused' of run {run.id} cannot be sent and stays due: LookupError: no route for shop.unknown"
    ] * 2
    publisher.close()
