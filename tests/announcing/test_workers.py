"""Events and results of runs that real workers execute, while workers die."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from tests.runtime.places import Place, place_with
from tests.workers import wait_until

pytestmark = pytest.mark.servers


@pytest.fixture(params=["rabbitmq", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    more: dict[str, Any] = {"saga_events": True, "saga_publish_results": True}
    if request.param == "rabbitmq":
        more["result_backend"] = f"db+sqlite:///{tmp_path}/results.db"
    with place_with(request.param, tmp_path, **more) as found:
        yield found


def test_events_and_results_of_runs_come_out_whoever_dies(place: Place) -> None:
    app = place.shop.app
    connection = Connection(app.conf.broker_url, transport_options=app.conf.broker_transport_options)
    queue = Queue("all", Exchange("saga.events", type="topic"), routing_key="saga.#")(connection.channel())
    queue.declare()
    found: list[dict[str, Any]] = []

    def take() -> int:
        while (message := queue.get()) is not None:
            message.ack()
            found.append(json.loads(message.body))
        return len({body["id"] for body in found})

    # Nobody sweeps here, and this worker dies: what its children have committed is published by the next one.
    with place.worker(options=("--no-saga-sweeper",)) as first:
        runs = [place.shop.checkout.start(name, 500) for name in ("o1", "none", "o2")]
        for run in runs:
            wait_until(lambda run=run: run.refresh().status.is_end, what="the end")
        first.kill()
        before = take()
    with place.worker():
        wait_until(lambda: take() == 7, what="the events")
        results = [app.AsyncResult(run.id).get(timeout=20, propagate=False) for run in runs]

    assert before == 0
    told: dict[str, list[str]] = {run.id: [] for run in runs}
    for body in found:
        told[body["run_id"]].append(body["event"])
    assert list(told.values()) == [
        *(["started", "completed"], ["started", "compensating", "failed"], ["started", "completed"]),
    ]
    assert results[0] == results[2] == "ch-500"
    assert "OutOfStock" in str(results[1])
    connection.release()
