"""A run outlives each node of the cluster: its worker, its broker with all messages, its database."""

from __future__ import annotations

import pytest
from pytest_celery import CeleryTestNode, CeleryTestSetup

from celery_saga import CelerySaga, RunFailed
from tests.smoke.shipping import GO, NotAllowed, shipping
from tests.workers import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]


def test_a_run_outlives_the_death_of_every_node(
    celery_setup: CeleryTestSetup, celery_saga_postgres: CeleryTestNode, saga_client: CelerySaga
) -> None:
    worker, broker = celery_setup.worker, celery_setup.broker
    sent, refused = shipping.start("books"), shipping.start("knives")
    for run in (sent, refused):
        wait_until(lambda run=run: run.refresh().status == "waiting", what="a run that waits")

    worker.kill()
    broker.kill()
    celery_saga_postgres.kill()
    assert [node.container.status for node in (worker, broker, celery_saga_postgres)] == ["exited"] * 3
    celery_saga_postgres.restart()
    broker.restart()
    worker.restart()

    assert (sent.signal(GO, True), refused.signal(GO, False)) == ("delivered", "delivered")
    assert sent.wait(30) == "sent box of books"
    with pytest.raises(RunFailed) as failed:
        refused.wait(30)
    assert isinstance(failed.value.cause, NotAllowed)
    assert [(step.key, step.status) for step in refused.steps()] == [
        ("pack", "done"),
        ("go", "done"),
        ("pack!undo", "done"),
    ]
    worker.assert_log_exists("smoke.unpack")


def test_a_broker_that_loses_everything_before_a_worker_is_there_holds_nothing_up(
    celery_setup: CeleryTestSetup, saga_client: CelerySaga
) -> None:
    celery_setup.worker.kill()
    run = shipping.start("maps")
    with celery_setup.app.connection_for_write() as connection, connection.channel() as channel:
        assert channel.queue_purge("celery") == 1
    assert run.signal(GO, True) == "kept"

    celery_setup.worker.restart()

    assert run.wait(30) == "sent box of maps"
